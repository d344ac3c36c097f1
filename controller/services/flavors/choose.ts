/** Chooses the flavor of each service before its pass, and remembers which flavors the scheduler recently had no room for. */
import type { ErrorCode } from "../../../src/api/errors.ts";
import type { Flavor, FlavorStatus } from "../../../src/api/flavors.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import type { Model } from "../../../src/api/model.ts";
import { onHostsOf } from "../../../src/capacity/flavors/apply.ts";
import { flavorsOf, platformOfFlavor } from "../../../src/capacity/flavors/narrow.ts";
import { type FlavorsInput, type FlavorsPlan, planFlavors } from "../../../src/capacity/flavors/plan.ts";
import { type Blocked, resolveService, usableModel } from "../../../src/capacity/resolve.ts";
import type { ChosenFlavor, FlavorChooser } from "../../frame/service/flavor-report.ts";
import { type FlavorStage, type LiveService, modelKeyOf, namedModels } from "../../frame/service/path.ts";
import { isServingReplica } from "../../hosts/rollout/slots.ts";
import { usableClasses } from "../../pods/claims.ts";
import { countServing } from "../../pods/groups/groups.ts";
import { podsInputOf } from "../../pods/pass.ts";
import { isReadyPod, readPods } from "../../pods/pods.ts";
import type { PodsSettings } from "../../pods/workload/contract.ts";
import { matchesFlavors } from "../../pods/workload/flavors/nodes.ts";
import { type StageContext, stageContext, stageOf } from "../../pods/workload/flavors/stage.ts";
import { resolveGroups, resolvePods } from "../../pods/workload/resolve.ts";
import { podRevisionOf } from "../../pods/workload/revision.ts";
import { type JudgePorts, judgeFlavors } from "./judge.ts";

export interface FlavorPorts extends JudgePorts {
  readonly settings: PodsSettings;
  /** Minimum time that a replica stays before live eviction may move it; undefined if live eviction is off. */
  readonly minimumStayMs: number | undefined;
}

/** Time for which a flavor without room for a pod is skipped, as for a host that refused a replica. */
const REFUSAL_MS = 10 * 60_000;
/** The room on nodes also changes by pods that are not ours, which no watch shows. */
const RECHECK_MS = 60_000;

interface Refusal {
  readonly untilMs: number;
  readonly message: string;
}

interface State {
  readonly refusals: Map<string, Map<string, Refusal>>;
  readonly waiting: Set<string>;
}

export function createFlavors(ports: FlavorPorts): FlavorChooser {
  const state: State = { refusals: new Map(), waiting: new Set() };
  return {
    choose: (live) => choose(ports, state, live),
    last: (live) => {
      const { flavors = [] } = flavorsOf(live.service.spec, modelOf(ports, live)) ?? {};
      const last = currentOf(ports, live, flavors) ?? flavors[0];
      return last === undefined ? live : taking(ports, live, flavors, last);
    },
    waiting: () => state.waiting,
    forget: (key) => {
      state.refusals.delete(key);
      state.waiting.delete(key);
    },
  };
}

function choose(ports: FlavorPorts, state: State, live: LiveService): ChosenFlavor {
  const { key, service, own } = live;
  const model = modelOf(ports, live);
  const narrowed = flavorsOf(service.spec, model);
  if (narrowed === undefined || model === undefined) {
    state.waiting.delete(key);
    return { live };
  }
  const { flavors, unknown } = narrowed;
  if (flavors.length === 0) return without(live, "FlavorNotFound", missingText(model, unknown));
  const current = currentOf(ports, live, flavors);
  // Nothing can be judged before the source and the BackendRuntime are read.
  if (live.blocked !== undefined || "at" in usableModel({ model, name: model.metadata.name, field: "" }))
    return { live: taking(ports, live, flavors, current ?? flavors[0]), ...lastReport(service) };
  const plan = planFor(ports, state, live, { model, flavors, current });
  const taken = flavors.find(({ name }) => name === plan.taken);
  if (taken === undefined)
    return { ...without(live, "NoFlavorFits", skippedText(plan)), ...reportOf(plan, undefined) };
  const isFirst = taken === flavors[0] && plan.hasRoom;
  if (isFirst) state.waiting.delete(key);
  else state.waiting.add(key);
  return {
    live: taking(ports, live, flavors, taken),
    ...reportOf(plan, unknown.length === 0 ? undefined : missingText(model, unknown)),
    recheckAfterMs: isFirst || own.pods.length + own.replicas.length === 0 ? undefined : RECHECK_MS,
  };
}

interface Planning {
  readonly model: Model;
  readonly flavors: readonly Flavor[];
  readonly current: Flavor | undefined;
}

function planFor(
  ports: FlavorPorts,
  state: State,
  live: LiveService,
  { model, flavors, current }: Planning,
): FlavorsPlan {
  const { key, service } = live;
  const desired = service.spec.suspend ? 1 : Math.max(1, service.spec.replicas);
  const context = contextOf(ports, live);
  if (current !== undefined && platformOfFlavor(current) === "Pods")
    noteRefusals(ports, state, taking(ports, live, flavors, current), stageOf(flavors, current, context));
  const refusalOf = (flavor: string) => refusalIn(ports, state, key, flavor);
  const judged = judgeFlavors(ports, { live, model, flavors, desired, context, refusalOf });
  const isServing = current !== undefined && isServingOn(live, current);
  const input: FlavorsInput = {
    flavors: judged,
    desired,
    current: current?.name,
    isServing,
    mayLeave: undefined,
  };
  const first = planFlavors(input);
  const mayLeave =
    first.available === undefined || current === undefined
      ? undefined
      : mayLeaveOf(ports, live, flavors, current);
  return mayLeave === undefined ? first : planFlavors({ ...input, mayLeave });
}

function contextOf(ports: FlavorPorts, live: LiveService): StageContext {
  const { service, own, backend } = live;
  const classes = usableClasses(ports.watches.deviceClasses.list(), own);
  return stageContext(service.spec, modelOf(ports, live)?.spec.hardware, classes, backend?.spec);
}

function modelOf({ watches }: FlavorPorts, { service }: LiveService): Model | undefined {
  const model = watches.models.get(modelKeyOf(service));
  return model === undefined || isBeingDeleted(model) ? undefined : model;
}

/** The service as it runs on a flavor. */
function taking(
  ports: FlavorPorts,
  live: LiveService,
  flavors: readonly Flavor[],
  taken = flavors[0],
): LiveService {
  if (taken === undefined) return live;
  const { service } = live;
  if (platformOfFlavor(taken) === "Hosts")
    return { ...live, service: onHostsOf(service, taken), flavor: { on: "Hosts", flavor: taken } };
  const stage = stageOf(flavors, taken, contextOf(ports, live));
  const placement = { ...service.spec.placement, on: "Pods" as const };
  return {
    ...live,
    service: { ...service, spec: { ...service.spec, placement } },
    flavor: { on: "Pods", stage },
  };
}

function without(live: LiveService, code: ErrorCode, message: string): ChosenFlavor {
  const blocked: Blocked = { at: "blocked", code, message, isFinal: true };
  const condition = { type: "FlavorChosen", status: "False", reason: code, message } as const;
  return { live: { ...live, blocked }, report: { status: {}, condition } };
}

/** The report of the last pass. */
function lastReport({ status = {} }: InferenceService): Pick<ChosenFlavor, "report"> {
  const { flavor } = status;
  const condition = status.conditions?.find(({ type }) => type === "FlavorChosen");
  return { report: flavor && condition && { status: flavor, condition } };
}

function missingText({ metadata, spec }: Model, unknown: readonly string[]): string {
  const has = (spec.flavors ?? []).map(({ name }) => name).join(", ");
  const known = has === "" ? "it has no flavors" : `it has ${has}`;
  return `Model ${metadata.name} has no flavor ${unknown.join(", ")}, which spec.flavors names; ${known}`;
}

function skippedText({ skipped }: FlavorsPlan): string {
  return skipped.map(({ name, message }) => `${name}: ${message}`).join("; ");
}

function reportOf(plan: FlavorsPlan, missing: string | undefined): Pick<ChosenFlavor, "report"> {
  const { taken, hasRoom, reason, skipped, available } = plan;
  const status: FlavorStatus = {
    name: taken,
    reason,
    skipped: skipped.length === 0 ? undefined : [...skipped],
    available,
  };
  const used = taken === undefined ? reason : `${taken}: ${reason}`;
  const others = skipped.length === 0 ? "" : `; not used: ${skippedText(plan)}`;
  const message = `${missing === undefined ? "" : `${missing}; `}${used}${others}`;
  return { report: { status, condition: { type: "FlavorChosen", ...verdictOf(), message } } };

  function verdictOf(): { readonly status: "True" | "False"; readonly reason: ErrorCode } {
    if (missing !== undefined) return { status: "False", reason: "FlavorNotFound" };
    if (!hasRoom) return { status: "False", reason: "NoFlavorFits" };
    if (available !== undefined) return { status: "True", reason: "FlavorAvailable" };
    return { status: "True", reason: skipped.length === 0 ? "FlavorPreferred" : "FlavorFallback" };
  }
}

/** The flavor of the last pass. Where the scheduler chooses among several, it is the one of the node of a ready pod. */
function currentOf(ports: FlavorPorts, live: LiveService, flavors: readonly Flavor[]): Flavor | undefined {
  const last = flavors.find(({ name }) => name === live.service.status?.flavor?.name);
  if (last === undefined || platformOfFlavor(last) === "Hosts") return last;
  const stage = stageOf(flavors, last, contextOf(ports, live));
  if (stage.by !== "labels") return last;
  const nodes = live.own.pods
    .filter(isReadyPod)
    .flatMap(({ spec }) => ports.watches.nodes.get(spec.nodeName ?? "") ?? []);
  const isThere = ({ nodeSelector }: Flavor) =>
    nodes.some((node) => matchesFlavors(node, { nodeSelector, limits: {}, parallel: {} }));
  return stage.flavors.findLast(isThere) ?? last;
}

function isServingOn({ own }: LiveService, current: Flavor): boolean {
  return platformOfFlavor(current) === "Hosts"
    ? own.replicas.some(isServingReplica)
    : countServing(own.pods) > 0;
}

/**
 * Notes whether the scheduler has room for the pods, for every flavor that their template offers. Pods of another template say
 * nothing of these flavors: they may still wait while their Deployment is changed. Neither do pods that wait for a volume or for
 * other pods: another flavor would not help them.
 */
function noteRefusals(ports: FlavorPorts, { refusals }: State, live: LiveService, stage: FlavorStage): void {
  const { key, own } = live;
  const { clock } = ports;
  const revision = wantedRevisionOf(ports, live);
  const { unscheduled, ready } = readPods(own.pods.filter((pod) => podRevisionOf(pod) === revision));
  if (unscheduled === undefined && ready > 0)
    for (const { name } of stage.flavors) refusals.get(key)?.delete(name);
  if (unscheduled?.obstacle !== "hardware") return;
  const refusal = { untilMs: clock.monotonicMs() + REFUSAL_MS, message: unscheduled.message };
  const ofService = refusals.get(key) ?? new Map<string, Refusal>();
  for (const { name } of stage.flavors) ofService.set(name, refusal);
  refusals.set(key, ofService);
}

function refusalIn(
  { clock }: FlavorPorts,
  { refusals }: State,
  key: string,
  flavor: string,
): string | undefined {
  const refusal = refusals.get(key)?.get(flavor);
  return refusal !== undefined && clock.monotonicMs() < refusal.untilMs ? refusal.message : undefined;
}

/** Reason why replicas that serve may be replaced now. */
function mayLeaveOf(
  ports: FlavorPorts,
  live: LiveService,
  flavors: readonly Flavor[],
  current: Flavor,
): FlavorsInput["mayLeave"] {
  if (isRollingOut(ports, taking(ports, live, flavors, current))) return "rollout";
  const { minimumStayMs, clock } = ports;
  const { evictionProtection, disruption } = live.service.spec;
  if (minimumStayMs === undefined || evictionProtection || disruption?.protectAlways === true)
    return undefined;
  const since = [...live.own.replicas, ...live.own.pods].map(
    ({ metadata }) => Date.parse(metadata.creationTimestamp ?? "") || 0,
  );
  return clock.nowMs() - Math.max(0, ...since) >= minimumStayMs ? "liveEviction" : undefined;
}

/** True if replicas on the current flavor have another template than the service asks for, so a rollout replaces them anyway. */
function isRollingOut(ports: FlavorPorts, live: LiveService): boolean {
  const { service, own, flavor, backend } = live;
  const { watches } = ports;
  if (flavor?.on === "Pods") return arePodsRollingOut(ports, live);
  const params = flavor?.on === "Hosts" ? flavor.flavor.params : undefined;
  const named = namedModels(watches.models, service);
  const hosts = watches.hosts.list();
  const { byDefault: transport } = ports.transport;
  const objects = { service, backend, ...named, replicas: own.replicas, hosts, params };
  const resolved = resolveService({ ...objects, transport });
  return (
    resolved.at === "resolved" &&
    own.replicas.some(
      (one) => !isBeingDeleted(one) && one.spec.template.revision !== resolved.template.revision,
    )
  );
}

function arePodsRollingOut(ports: FlavorPorts, live: LiveService): boolean {
  const { service, own } = live;
  const running =
    service.spec.group === undefined
      ? own.deployments[0]?.spec.template
      : own.groups[0]?.spec.leaderWorkerTemplate.leaderTemplate;
  const wanted = wantedRevisionOf(ports, live);
  return wanted !== undefined && running !== undefined && wanted !== podRevisionOf(running);
}

/** The revision of the pods that the service asks for, on the flavor that it has; undefined if they cannot be built. */
function wantedRevisionOf(ports: FlavorPorts, live: LiveService): string | undefined {
  const input = podsInputOf(ports, live);
  const resolved = live.service.spec.group === undefined ? resolvePods(input) : resolveGroups(input);
  return resolved.at === "resolved" ? resolved.revision : undefined;
}
