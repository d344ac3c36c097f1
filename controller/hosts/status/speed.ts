/** The condition SpeedKnown: whether placement knows how fast each candidate host runs the model. Pure. */
import type { ConditionUpdate } from "../../../src/api/conditions.ts";
import type { Host } from "../../../src/api/host.ts";
import type { Model } from "../../../src/api/model.ts";
import { speedsByClass, subjectOf } from "../../../src/capacity/benchmark/subject.ts";
import { deviceClassOfHost } from "../../../src/capacity/devices/host.ts";
import { isAllowedBy } from "../../../src/capacity/placement/filters.ts";
import { hostSpeed } from "../../../src/capacity/placement/machine.ts";
import type { Resolved } from "../../../src/capacity/resolve.ts";
import { engineDescription, requiredRuntimeName } from "../../../src/engines/registry.ts";
import { publicSource } from "../../../src/models/source/parse.ts";
import { compareText } from "../../../src/util/text.ts";
import { unresolved } from "../../frame/service/phase.ts";
import type { ServiceDraft } from "../plan/plan.ts";

const MAX_NAMED = 5;

/** A host whose speed is unknown counts as half as fast as the fastest one. */
export function speedKnown({ observed, resolution }: ServiceDraft): ConditionUpdate {
  const type = "SpeedKnown";
  if (resolution.at === "blocked") return unresolved(type, resolution);
  const { service, model, benchmarks } = observed;
  const { template } = resolution;
  const { mode = "chat", placement } = service.spec;
  if (mode !== "chat")
    return { type, status: "True", reason: "NothingToMeasure", message: `mode ${mode} generates no tokens` };
  const subject = model && subjectOf(model, service, { runtime: template.runtime });
  const speeds = speedsByClass(benchmarks, subject);
  const runtime = requiredRuntimeName(template);
  const choice = { hosts: placement.hosts ?? [], hostSelector: placement.hostSelector };
  const source = publicSource(template.model.source);
  const hosts = [...observed.hosts.values()].filter(
    ({ metadata, status, spec }) =>
      status?.runtimes?.some(({ name }) => name === runtime) === true &&
      !spec.unschedulable &&
      isAllowedBy(choice, { name: metadata.name, labels: metadata.labels ?? {} }),
  );
  if (hosts.length === 0)
    return { type, status: "Unknown", reason: "NoCandidates", message: `no candidate host has ${runtime}` };
  const unknown = hosts.filter((host) => {
    const live = host.status?.models?.find((one) => one.source === source)?.tokensPerSecond;
    return hostSpeed({ deviceClass: deviceClassOfHost(host) }, speeds, live || undefined) === undefined;
  });
  if (unknown.length === 0) return { type, status: "True", reason: "SpeedMeasured", message: "" };
  // The order of the watch changes, and the message must not.
  unknown.sort((a, b) => compareText(a.metadata.name, b.metadata.name));
  const named = unknown.slice(0, MAX_NAMED).map((host) => `${host.metadata.name} ${classText(host)}`);
  const more = unknown.length > MAX_NAMED ? ` and ${unknown.length - MAX_NAMED} more` : "";
  // The live rate comes from the same counters as the number of requests.
  const isLive = engineDescription(template.runtime)?.host?.reportsRequests === true;
  const live = isLive ? "; requests to a replica there also supply it" : "";
  const message = `speed unknown on ${named.join(", ")}${more}: ${supplyText(model, template)}${live}`;
  return { type, status: "False", reason: "SpeedUnmeasured", message };
}

function classText(host: Host): string {
  return `(${deviceClassOfHost(host) ?? "chip not reported"})`;
}

function supplyText(model: Model | undefined, { runtime, engine }: Resolved["template"]): string {
  if (model?.spec.benchmark?.enabled === false)
    return "benchmarks of its Model are disabled (spec.benchmark.enabled)";
  if (engineDescription(runtime)?.host?.benchmarkTool === undefined)
    return `runtime ${runtime} has no benchmark on hosts`;
  if ((engine.tensorOverrides ?? []).length > 0) return "services with tensorOverrides are not benchmarked";
  return "a benchmark of this device class is pending";
}
