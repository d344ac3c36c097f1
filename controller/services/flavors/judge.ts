/** Judges every flavor of a service with the machinery of its platform: placement on hosts, or the nodes for pods. */

import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { Flavor } from "../../../src/api/flavors.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { Model } from "../../../src/api/model.ts";
import { demandOf } from "../../../src/capacity/demand.ts";
import { onHostsOf } from "../../../src/capacity/flavors/apply.ts";
import { contradictionOf } from "../../../src/capacity/flavors/contradictions.ts";
import { platformOfFlavor } from "../../../src/capacity/flavors/narrow.ts";
import type { FlavorState, JudgedFlavor } from "../../../src/capacity/flavors/plan.ts";
import type { HostsRoom } from "../../../src/capacity/placement/scheduler/what-if.ts";
import { quantizationOfWeights, resolveService } from "../../../src/capacity/resolve.ts";
import { readReportedNode } from "../../../src/cluster/nodes.ts";
import type { Node, Pod } from "../../../src/kube/workload-objects.ts";
import { formatBytes } from "../../../src/util/bytes.ts";
import type { ControllerPorts } from "../../frame/ports.ts";
import type { ControllerScheduler } from "../../frame/scheduler/scheduler.ts";
import { withoutFreeDevices } from "../../frame/service/flavor-report.ts";
import { type LiveService, namedModels } from "../../frame/service/path.ts";
import type { SealedTransport } from "../../frame/service/transport.ts";
import { countGroups } from "../../pods/groups/groups.ts";
import { withStage } from "../../pods/workload/flavors/build.ts";
import { type StageContext, stageOf } from "../../pods/workload/flavors/stage.ts";
import { gpusOf } from "../../pods/workload/gpus.ts";
import { tolerationsOf } from "../../pods/workload/pod.ts";
import { podNeed, withPodBackend } from "../../pods/workload/resolve.ts";
import { podsRoom } from "./pods-room.ts";

export interface JudgePorts extends ControllerPorts {
  readonly scheduler: Pick<ControllerScheduler, "roomOnHosts" | "refusals">;
  readonly transport: Pick<SealedTransport, "byDefault">;
}

export interface JudgeInput {
  readonly live: LiveService;
  readonly model: Model;
  readonly flavors: readonly Flavor[];
  readonly desired: number;
  readonly context: StageContext;
  /** Why the scheduler recently placed no pod on a flavor. */
  readonly refusalOf: (flavor: string) => string | undefined;
}

export function judgeFlavors(ports: JudgePorts, input: JudgeInput): readonly JudgedFlavor[] {
  return input.flavors.map((flavor) => ({
    name: flavor.name,
    on: platformOfFlavor(flavor),
    state: stateOf(ports, input, flavor),
  }));
}

function stateOf(ports: JudgePorts, input: JudgeInput, flavor: Flavor): FlavorState {
  const contradiction = contradictionOf(input.live.service.spec, flavor);
  if (contradiction !== undefined) return { at: "excluded", message: contradiction };
  if (platformOfFlavor(flavor) === "Hosts") return hostsState(ports, input, flavor);
  if (ports.hostsOnly) return { at: "excluded", message: "this installation runs services on hosts only" };
  try {
    return podsState(ports, input, flavor);
  } catch (error) {
    if (!(error instanceof MetalbridgeError)) throw error;
    return { at: "excluded", message: error.message };
  }
}

function hostsState(ports: JudgePorts, { live, desired }: JudgeInput, flavor: Flavor): FlavorState {
  const { watches, scheduler, clock } = ports;
  const service = onHostsOf(live.service, flavor);
  const named = namedModels(watches.models, service);
  const { replicas } = live.own;
  const resolution = resolveService({
    service,
    backend: live.backend,
    ...named,
    replicas,
    hosts: watches.hosts.list(),
    params: flavor.params,
    transport: ports.transport.byDefault,
  });
  if (resolution.at === "blocked")
    return { at: resolution.isFinal ? "excluded" : "full", message: resolution.message };
  const { template, claim, model } = resolution;
  const { refusals } = scheduler.refusals(live.key);
  const fixed = { ordinal: 0, mayPreempt: false, predecessors: [] };
  const demand = demandOf({ service, model, template, claim, refusals, ...fixed });
  return stateOnHosts(scheduler.roomOnHosts(demand, desired, clock.monotonicMs()), desired);
}

const MAX_NAMED = 3;

function stateOnHosts({ replicas, hosts, misses }: HostsRoom, desired: number): FlavorState {
  const listed = (texts: readonly string[]) =>
    `${texts.slice(0, MAX_NAMED).join(", ")}${texts.length > MAX_NAMED ? `, and ${texts.length - MAX_NAMED} more` : ""}`;
  if (replicas > 0)
    return { at: "room", replicas: Math.min(replicas, desired), message: `room on ${listed(hosts)}` };
  if (misses.length === 0) return { at: "unmatched", message: "no host matches its hostSelector" };
  return { at: "full", message: listed(misses.map(({ host, message }) => `${host}: ${message}`).sort()) };
}

function podsState(ports: JudgePorts, input: JudgeInput, flavor: Flavor): FlavorState {
  const { live, model: given, flavors, desired, context, refusalOf } = input;
  const stage = stageOf(flavors, flavor, context);
  const single = { by: stage.by === "devices" ? "devices" : "single", flavors: [flavor] } as const;
  const { backend } = live;
  const staged = withStage(live.service, given, single, backend?.spec.engine);
  const { model } = staged;
  const named = namedModels(ports.watches.models, staged.service);
  const service = withPodBackend(staged.service, { ...named, model, backend, inherited: staged.inherited });
  // The BackendRuntime has requests and labels too.
  const contradiction = contradictionOf(service.spec, flavor);
  if (contradiction !== undefined) return { at: "excluded", message: contradiction };
  const gpus = gpusOf(model, service.spec);
  const refusal = refusalOf(flavor.name);
  const last = stage.flavors.findIndex(({ name }) => name === live.service.status?.flavor?.name);
  const scheduled = countScheduled(live);
  if (stage.by === "devices") {
    // Pods with another claim do not show that devices are free.
    if (refusal !== undefined && (scheduled === 0 || last === -1)) return { at: "full", message: refusal };
    // The status has the flavor that kube-scheduler allocated, so the ones before it had no free devices.
    if (scheduled > 0 && stage.flavors.indexOf(flavor) < last)
      return { at: "full", message: withoutFreeDevices(flavor.deviceClass ?? "") };
    return {
      at: "room",
      replicas: desired,
      message: `the scheduler chooses devices of ${flavor.deviceClass}`,
    };
  }
  const own = new Set(live.own.pods.map(({ metadata }) => metadata.uid));
  const room = podsRoom({
    nodeSelector: { ...service.spec.nodeSelector, ...flavor.nodeSelector },
    tolerations: tolerationsOf(service.spec, gpus),
    gpus: gpus.resources,
    desired,
    group: service.spec.group,
    nodes: ports.watches.nodes.list(),
    podsOn: (node) => ports.watches.podsOfNode.of(node),
    isOwn: ({ metadata }) => own.has(metadata.uid),
    misfit: misfitOf(ports, service, model),
  });
  if (refusal === undefined || room.at !== "room") return room;
  if (scheduled === 0) return { at: "full", message: refusal };
  return { ...room, replicas: Math.min(room.replicas, scheduled) };
}

/** Number of replicas on nodes. Pods of a group that waits for the others count for nothing. */
function countScheduled({ service, own }: LiveService): number {
  const isScheduled = ({ spec }: Pod) => spec.nodeName !== undefined;
  return service.spec.group === undefined
    ? own.pods.filter(isScheduled).length
    : countGroups(own.pods, isScheduled);
}

/** Nodes whose memory is known to be too small for the model, or whose GPUs do not run its quantization. */
function misfitOf(
  { fitness, watches }: JudgePorts,
  service: InferenceService,
  model: Model,
): (node: Node) => string | undefined {
  if (fitness === undefined) return () => undefined;
  const need = podNeed({ service, model });
  const { settings, claimBytes } = need;
  const { source } = model.spec;
  const quantization = quantizationOfWeights(model);
  const scorer = fitness.forReplica({ source, quantization, settings, claimBytes });
  return (node) => {
    const fit = scorer.fitOn({ node: readReportedNode(fitness, node, watches.nodeReports), pod: need });
    if (fit.at === "unsupported") return fit.why;
    if (fit.at !== "tooSmall") return undefined;
    return `offers ${formatBytes(fit.budgetBytes)} of the ${formatBytes(fit.claimBytes)} that the model needs`;
  };
}
