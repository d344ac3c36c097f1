/** Detects changes of the machine's address while the agent runs, such as by DHCP, another network or a VPN. */

import type { Clock, Log } from "../../src/util/ports.ts";
import { msToAlignedTime } from "../../src/util/shared-ticks.ts";

export interface FollowAddressOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Reads the local address of the route to the API server; absent if addresses are configured. */
  readonly readRoute?: (() => Promise<string | undefined>) | undefined;
  readonly onRouted: (address: string) => void;
  /** The address that engines are served on; undefined while there is none. */
  readonly address: () => string | undefined;
  /** The address changed, went down or came up; or the route changed, and connections over the old one are dead. */
  readonly onChange: () => void;
  /** Called at each poll, with the expected time since the previous one. */
  readonly onPoll?: (everyMs: number) => void;
}

/** No event reports address changes on every system, and a poll costs a few system calls. */
const POLL_MS = 1_000;

/**
 * Stops with the signal. A host without a route keeps its address: a lost network is not a new one. Slow answers do not delay
 * polls: a name that does not resolve takes many seconds, which must not look like a sleep of the machine.
 */
export function followAddress(options: FollowAddressOptions): void {
  const { clock, log, signal, readRoute, onRouted, address, onChange } = options;
  let lastAddress = address();
  let route: string | undefined;
  let isReading = false;
  const isMoved = (): boolean => {
    const now = address();
    if (now === lastAddress) return false;
    log.warn({ before: lastAddress, now }, "the address that engines are served on changed");
    lastAddress = now;
    return true;
  };
  const isRerouted = (routed: string | undefined): boolean => {
    const before = route;
    route = routed ?? before;
    if (before === undefined || before === route) return false;
    log.info({ before, now: route }, "the route to the API server leaves this machine from another address");
    return true;
  };
  const update = async (): Promise<void> => {
    isReading = true;
    const routed = await readRoute?.().catch(() => undefined);
    isReading = false;
    if (signal.aborted) return;
    if (routed !== undefined) onRouted(routed);
    const isNewRoute = isRerouted(routed);
    if (isMoved() || isNewRoute) onChange();
  };
  const poll = (): void => {
    cancel = clock.after(msToAlignedTime(clock.monotonicMs(), POLL_MS), poll);
    options.onPoll?.(POLL_MS);
    // The route is read before the address, so that the replacement of an address is one change and not two.
    if (!isReading) void update();
    else if (isMoved()) onChange();
  };
  let cancel = clock.after(POLL_MS, poll);
  signal.addEventListener("abort", () => cancel(), { once: true });
}
