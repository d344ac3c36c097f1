/** Follows the machine's address: DHCP, another network or a VPN changes it while the agent runs. */

import type { Clock, Log } from "../../src/util/ports.ts";
import { msToAlignedTime } from "../../src/util/shared-ticks.ts";

export interface FollowAddressOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** The local address of the route to the API server; absent where addresses are configured. */
  readonly askRoute?: (() => Promise<string | undefined>) | undefined;
  readonly onRouted: (address: string) => void;
  /** What engines are served on now; undefined while there is none. */
  readonly address: () => string | undefined;
  /** The address changed, went away or came back; or the route changed, and connections over the old one are dead. */
  readonly onChange: () => void;
  /** Called at each poll, with the time that should have passed since the last one. */
  readonly onLook?: (everyMs: number) => void;
}

/** Polled: no event reports it on every system, and a poll costs a few system calls. */
const LOOK_MS = 1_000;

/**
 * Stops with the signal. A host without any route keeps the address that it had: a lost network is not a new one.
 * Polls stay on time however long the answers take: a name that does not resolve takes many seconds, which must not
 * be mistaken for a sleep.
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
    cancel = clock.after(msToAlignedTime(clock.monotonicMs(), LOOK_MS), look);
    options.onLook?.(LOOK_MS);
    // A quick route answer is awaited first, so that replacing an address is one change and not two.
    if (!isAsking) void ask();
    else if (isMoved()) onChange();
  };
  let cancel = clock.after(LOOK_MS, look);
  signal.addEventListener("abort", () => cancel(), { once: true });
}
