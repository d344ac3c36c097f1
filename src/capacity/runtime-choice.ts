/** Which runtime serves a service that names none: by the format of its Model, and by what hosts have. Pure. */
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
 * spec.runtime where it can serve the format, else all that can, in order of preference; only those that hosts have a
 * driver for. Never empty. Throws HostRuntimeMissing or RuntimeMismatch.
 */
export function candidateRuntimes(
  asked: Runtime | undefined,
  format: ModelFormat,
  mode: Mode,
): readonly Runtime[] {
  const supported = hostRuntimes();
  if (asked === undefined) {
    const found = runtimesFor(format, DEFAULT_HOST_ACCELERATOR, mode).filter((runtime) =>
      supported.includes(runtime),
    );
    if (found.length > 0) return found;
    const message = `no runtime is chosen for format ${format} on hosts; runtime generic runs any native program: set spec.runtime and spec.command`;
    throw new MetalbridgeError("RuntimeMismatch", message);
  }
  if (!supported.includes(asked)) {
    throw new MetalbridgeError(
      "HostRuntimeMissing",
      `${asked} has no driver on hosts in this version; supported: ${supported.join(", ")}`,
    );
  }
  if (isRuntimeFor(asked, format, DEFAULT_HOST_ACCELERATOR)) return [asked];
  throw new MetalbridgeError("RuntimeMismatch", `runtime ${asked} does not serve format ${format} on hosts`);
}

/** What one runtime needs for the service. */
type Requested = Pick<DemandInput, "model" | "template" | "claim">;

/**
 * The first that could run on a host that takes new replicas and whose memory is large enough for it, whatever else runs
 * there; else the first that an allowed host has at all.
 */
export function preferredOnHosts<Candidate extends Requested>(
  service: InferenceService,
  candidates: readonly Candidate[],
  hosts: Iterable<Host>,
): Candidate | undefined {
  const all = [...hosts];
  const asked = candidates.map((resolved) => {
    const demand = demandFor(service, resolved);
    return { resolved, demand, having: all.filter((host) => has(host, demand)) };
  });
  // Facts are gathered one host at a time: the first one usually settles it.
  const found =
    asked.find(({ demand, having }) => having.some((host) => couldRun(demand, hostFacts(host)))) ??
    asked.find(({ demand, having }) => having.some((host) => isAllowedBy(demand.choice, hostFacts(host))));
  return found?.resolved;
}

function demandFor(service: InferenceService, { model, template, claim }: Requested): Demand {
  const slot = { ordinal: 0, mayPreempt: false, predecessors: [], refusals: [] };
  return demandOf({ service, model, template, claim, ...slot });
}

function has({ status }: Host, { runtime }: Demand): boolean {
  return status?.runtimes?.some(({ name }) => name === runtime) === true;
}

function couldRun(demand: Demand, host: HostFacts): boolean {
  const isRefused = (["host", "slot"] as const).some(
    (scope) => firstRefusal(scope, demand, host, NO_CONTEXT) !== undefined,
  );
  return !isRefused && missingBytes(demand, host, host.budget.known ? host.budget.bytes : 0) === 0;
}
