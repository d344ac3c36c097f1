/** Inputs of the machine score, read from a host. Pure. */

import type { ScoreInputs } from "../score.ts";
import type { HostClaim, HostFacts } from "./types.ts";

/**
 * Generation speed of a host with a model: the benchmark of its class, else its own live rate. An estimate never counts here,
 * because it must not outrank a measurement.
 */
export function hostSpeed(
  { deviceClass }: Pick<HostFacts, "deviceClass">,
  speeds: Readonly<Record<string, number>>,
  live: number | undefined,
): ScoreInputs["tokensPerSecond"] {
  if (deviceClass !== undefined && Object.hasOwn(speeds, deviceClass))
    return { value: speeds[deviceClass] ?? 0, basis: "measured" };
  return live === undefined ? undefined : { value: live, basis: "live" };
}

/** Utilization changes with every request, so it is rounded to steps of 10 %, by which the scheduler cache can index hosts. */
const UTILIZATION_STEPS = 10;

/** Requests in flight divided by the slots of the replicas that report them; 0 without replicas, undefined without a report. */
export function utilizationOf(claims: Iterable<Pick<HostClaim, "load">>): number | undefined {
  let requests = 0;
  let slots = 0;
  let count = 0;
  for (const { load } of claims) {
    count += 1;
    if (load === undefined) continue;
    requests += load.requests;
    slots += load.slots;
  }
  if (count === 0) return 0;
  return slots === 0
    ? undefined
    : Math.round(Math.min(1, requests / slots) * UTILIZATION_STEPS) / UTILIZATION_STEPS;
}
