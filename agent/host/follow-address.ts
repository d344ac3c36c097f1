/** Follows the machine's address: DHCP, another network or a VPN changes it while the agent runs. */
import { untilBeat } from "../../src/beats.ts";
import type { Clock, Log } from "../../src/ports.ts";

export interface FollowAddressOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** The local address of the route to the API server; absent where addresses are configured. */
  readonly askRoute?: (() => Promise<string | undefined>) | undefined;
  readonly onRouted: (address: string) => void;
  /** What engines are served on now; undefined while there is none. */
  readonly address: () => string | undefined;
  /** It is another one, or gone, or back. */
  readonly onChange: () => void;
  /** At each look, with the time that should have passed since the last one. */
  readonly onLook?: (everyMs: number) => void;
}

/** No event tells of it on every system, and asking costs a few system calls. */
const LOOK_MS = 1_000;

/** Ends with the signal. A host without any route keeps the address that it had: a lost network is no new one. */
export function followAddress(options: FollowAddressOptions): void {
  const { clock, log, signal, askRoute, onRouted, address, onChange } = options;
  let known = address();
  const look = async (): Promise<void> => {
    options.onLook?.(LOOK_MS);
    const routed = await askRoute?.().catch(() => undefined);
    if (signal.aborted) return;
    if (routed !== undefined) onRouted(routed);
    const now = address();
    if (now !== known) {
      log.warn({ before: known, now }, "the address that engines are served on changed");
      known = now;
      onChange();
    }
    cancel = clock.after(untilBeat(clock.monotonicMs(), LOOK_MS), () => void look());
  };
  let cancel = clock.after(LOOK_MS, () => void look());
  signal.addEventListener("abort", () => cancel(), { once: true });
}
