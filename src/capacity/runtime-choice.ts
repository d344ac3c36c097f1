/** Chooses the runtime of a service that names none, by the format of its Model and the runtimes of hosts. Pure. */
import type { Mode } from "../api/engine-settings.ts";
import { MetalbridgeError } from "../api/errors.ts";
import type { Runtime } from "../api/fields/runtimes.ts";
import type { ModelFormat } from "../api/fields/shared.ts";
import type { Host } from "../api/host.ts";
import type { InferenceService } from "../api/inference-service/index.ts";
import { DEFAULT_HOST_ACCELERATOR, hostRuntimes, isRuntimeFor, runtimesFor } from "../engines/registry.ts";
import { type DemandInput, demandOf } from "./demand.ts";
import { firstRefusal, isAllowedBy, missingBytes, NO_CONTEXT } from "./placement/filters.ts";
import { hostFacts } from "./placement/host-facts.ts";
import type { Demand, HostFacts } from "./placement/types.ts";

/**
 * spec.runtime if it is set and can serve the format, else all runtimes with a driver on hosts that can, in order of preference.
 * Never empty. Throws HostRuntimeMissing or RuntimeMismatch.
 */
export function candidateRuntimes(
  requested: Runtime | undefined,
  format: ModelFormat,
  mode: Mode,
): readonly Runtime[] {
  const supported = hostRuntimes();
  if (requested === undefined) {
    const found = runtimesFor(format, DEFAULT_HOST_ACCELERATOR, mode).filter((runtime) =>
      supported.includes(runtime),
    );
    if (found.length > 0) return found;
    const message = `no runtime is chosen for format ${format} on hosts; runtime generic runs any native program: set spec.runtime and spec.command`;
    throw new MetalbridgeError("RuntimeMismatch", message);
  }
  if (!supported.includes(requested)) {
    throw new MetalbridgeError(
      "HostRuntimeMissing",
      `${requested} has no driver on hosts in this version; supported: ${supported.join(", ")}`,
    );
  }
  if (isRuntimeFor(requested, format, DEFAULT_HOST_ACCELERATOR)) return [requested];
  const message = `runtime ${requested} does not serve format ${format} on hosts`;
  throw new MetalbridgeError("RuntimeMismatch", message);
}

/** The service resolved for a runtime. */
type Requested = Pick<DemandInput, "model" | "template" | "claim">;

/**
 * The first candidate that could run on a schedulable host with enough total memory, whatever else runs there; else the first
 * candidate whose runtime an allowed host has.
 */
export function preferredOnHosts<Candidate extends Requested>(
  service: InferenceService,
  candidates: readonly Candidate[],
  hosts: Iterable<Host>,
): Candidate | undefined {
  const all = [...hosts];
  const slot = { ordinal: 0, mayPreempt: false, predecessors: [], refusals: [] };
  const options = candidates.map((resolved) => {
    const { model, template, claim } = resolved;
    const demand = demandOf({ service, model, template, claim, ...slot });
    const withRuntime = all.filter(({ status }) =>
      status?.runtimes?.some(({ name }) => name === demand.runtime),
    );
    return { resolved, demand, withRuntime };
  });
  // Facts are read for one host at a time, because the first host is usually sufficient.
  const chosen =
    options.find(({ demand, withRuntime }) =>
      withRuntime.some((host) => couldRun(demand, hostFacts(host))),
    ) ??
    options.find(({ demand, withRuntime }) =>
      withRuntime.some((host) => isAllowedBy(demand.choice, hostFacts(host))),
    );
  return chosen?.resolved;
}

function couldRun(demand: Demand, host: HostFacts): boolean {
  const isRefused = (["host", "slot"] as const).some(
    (scope) => firstRefusal(scope, demand, host, NO_CONTEXT) !== undefined,
  );
  return !isRefused && missingBytes(demand, host, host.budget.known ? host.budget.bytes : 0) === 0;
}
