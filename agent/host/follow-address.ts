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
  /** It is another one, or gone, or back; or the route is another one, and what was connected over the old one is dead. */
  readonly onChange: () => void;
  /** At each look, with the time that should have passed since the last one. */
  readonly onLook?: (everyMs: number) => void;
}

/** No event tells of it on every system, and asking costs a few system calls. */
const LOOK_MS = 1_000;

/**
 * Ends with the signal. A host without any route keeps the address that it had: a lost network is no new one. Looks come
 * on time whatever the answers do: a name that nobody resolves takes many seconds, which must not pass for a sleep.
 */
export function followAddress(options: FollowAddressOptions): void {
  const { clock, log, signal, askRoute, onRouted, address, onChange } = options;
  let known = address();
  let route: string | undefined;
  let isAsking = false;
  const isMoved = (): boolean => {
    const now = address();
    if (now === known) return false;
    log.warn({ before: known, now }, "the address that engines are served on changed");
    known = now;
    return true;
  };
  const isRerouted = (routed: string | undefined): boolean => {
    const before = route;
    route = routed ?? before;
    if (before === undefined || before === route) return false;
    log.info({ before, now: route }, "the route to the API server leaves this machine from another address");
    return true;
  };
  const ask = async (): Promise<void> => {
    isAsking = true;
    const routed = await askRoute?.().catch(() => undefined);
    isAsking = false;
    if (signal.aborted) return;
    if (routed !== undefined) onRouted(routed);
    const isNewRoute = isRerouted(routed);
    if (isMoved() || isNewRoute) onChange();
  };
  const look = (): void => {
    cancel = clock.after(untilBeat(clock.monotonicMs(), LOOK_MS), look);
    options.onLook?.(LOOK_MS);
    // The answer comes first where it is quick: an address that gives way to another is then one change and not two.
    if (!isAsking) void ask();
    else if (isMoved()) onChange();
  };
  let cancel = clock.after(LOOK_MS, look);
  signal.addEventListener("abort", () => cancel(), { once: true });
}
