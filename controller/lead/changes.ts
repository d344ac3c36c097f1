/** Enqueues the keys that each change of a watched object affects. */

import { getCondition } from "../../src/api/conditions.ts";
import { ANNOTATION_COST, ANNOTATION_LOST } from "../../src/api/group.ts";
import type { Host, HostModel } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { Model } from "../../src/api/model.ts";
import { keyOf } from "../../src/api/names.ts";
import { deviceClassOfHost } from "../../src/capacity/devices/host.ts";
import type { Fitness } from "../../src/capacity/fitness.ts";
import { claimOfReplica } from "../../src/capacity/placement/claims.ts";
import { modelsWithoutRoom, prefetchText } from "../../src/capacity/prefetch.ts";
import type { Node } from "../../src/kube/workload-objects.ts";
import { isDeepEqual } from "../../src/util/deep-equal.ts";
import { momentOf } from "../../src/util/moment.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { ControllerScheduler } from "../frame/scheduler/scheduler.ts";
import type { FlavorChooser } from "../frame/service/flavor-report.ts";
import type { IdleServices } from "../frame/service/idle-report.ts";
import type { ChangeHandlers } from "../frame/watches/contract.ts";
import { hasOtherCapacity, serviceOfPod } from "../frame/watches/pod-watches.ts";
import type { Watches } from "../frame/watches/watches.ts";
import type { ServiceMemory } from "../hosts/memory.ts";
import { accessKeyOf, replicaSecretsOf } from "../hosts/secrets/secret-access.ts";
import { isNodeReady } from "../pods/node-problems.ts";
import type { LivePerformance } from "../services/performance/live-performance.ts";
import type { Queues } from "./queues.ts";

export interface ChangePorts {
  readonly queues: Queues;
  readonly scheduler: ControllerScheduler;
  readonly watches: Watches;
  readonly memory: ServiceMemory;
  readonly performance: Pick<LivePerformance, "compare">;
  readonly clock: Clock;
  readonly fitness: Fitness | undefined;
  readonly flavors: Pick<FlavorChooser, "waiting">;
  readonly idle: Pick<IdleServices, "noteDemand" | "offer">;
}

export function createHandlers(ports: ChangePorts): ChangeHandlers {
  const { queues, watches } = ports;
  return {
    onService: (key) => queues.services.enqueue(key),
    onKind: () => {
      for (const { metadata } of watches.services.list()) queues.services.enqueue(keyOf(metadata));
    },
    onWeights: (model) => queues.models.enqueue(model),
    onModel: (namespace, name) => {
      queues.models.enqueue(keyOf({ namespace, name }));
      for (const { metadata } of watches.servicesOfModel.of(keyOf({ namespace, name }))) {
        queues.services.enqueue(keyOf(metadata));
      }
    },
    onReplica: (key, replica, before) => {
      noteReplica(ports, key, replica);
      noteShown(ports, replica, before);
      queues.placement.enqueue("all");
    },
    onPerformance: (key, replica) => {
      noteReplica(ports, key, replica);
      ports.performance.compare([serviceKeyOf(replica)]);
    },
    onHost: (...change) => noteHost(ports, ...change),
    onPrefetched: (model, before) => {
      if (prefetchText(model) === prefetchText(before)) return;
      for (const { metadata } of watches.hosts.list()) queues.hosts.enqueue(metadata.name);
    },
    onNode: (node, before) => noteNode(ports, node, before),
    onNodeSlice: () => enqueueAuto(ports),
    onDeviceClass: (name) => {
      const named = ({ spec }: Model) =>
        spec.flavors?.some(({ deviceClass }) => deviceClass === name) === true;
      for (const { metadata } of watches.models.list().filter(named))
        for (const service of watches.servicesOfModel.of(keyOf(metadata)))
          queues.services.enqueue(keyOf(service.metadata));
    },
    onNodeReport: (report, before) => {
      if (hasOtherCapacity(report, before)) enqueueAuto(ports);
    },
    onGroupKind: () => {
      for (const { metadata, spec } of watches.services.list())
        if (spec.group !== undefined) queues.services.enqueue(keyOf(metadata));
    },
    onBenchmarks: () => noteBenchmarks(ports),
    onBenchmarkFacts: () => {},
    onBackend: (name) => {
      for (const { metadata } of watches.servicesOfBackend.of(name)) queues.services.enqueue(keyOf(metadata));
    },
    onBackendMember: () => {},
    onHostMember: (host) => queues.hosts.enqueue(host),
    onDemand: (key, mark) => ports.idle.noteDemand(key, mark),
    onRenewal: (host) => {
      if (!isReachable(ports, host)) queues.fleet.enqueue("all");
      if (isDeclaredLost(ports, host)) queues.hosts.enqueue(host);
    },
  };
}

/** A renewal by a reachable host changes nothing, and each host renews every ten seconds. */
function isReachable({ watches }: ChangePorts, host: string): boolean {
  const conditions = watches.hosts.get(host)?.status?.conditions;
  return conditions?.find(({ type }) => type === "Reachable")?.status === "True";
}

/** True if an operator declared the host lost, which a renewal refutes. */
function isDeclaredLost({ watches }: ChangePorts, host: string): boolean {
  return watches.hosts.get(host)?.metadata.annotations?.[ANNOTATION_LOST] !== undefined;
}

/** Processes the first lists, for which no handler is called. */
export function processInitialLists(ports: ChangePorts): void {
  const { watches, scheduler, queues } = ports;
  for (const host of watches.hosts.list()) scheduler.noteHost(host.metadata.name, host);
  for (const replica of watches.replicas.list()) noteReplica(ports, keyOf(replica.metadata), replica);
  queues.placement.enqueue("all");
}

function noteHost(ports: ChangePorts, name: string, host: Host | undefined, before: Host | undefined): void {
  const { queues, scheduler } = ports;
  queues.hosts.enqueue(name);
  queues.fleet.enqueue("all");
  scheduler.noteHost(name, host);
  queues.placement.enqueue("all");
  enqueueWaitingForFlavor(ports, host, before);
  if (servingFactsOf(host) !== servingFactsOf(before)) enqueueServicesOn(ports, name);
  if (runtimesOf(host) !== runtimesOf(before)) enqueuePending(ports);
  if (!isDeepEqual(speedFactsOf(host), speedFactsOf(before))) enqueueWithoutSpeed(ports);
  for (const source of changedSources(before, host)) enqueueModelsOf(ports, source);
  const changed = changedPrefetches(before, host);
  if (host !== undefined && changed.size > 0) enqueueModelsWithoutRoom(ports, host);
  for (const model of changed) {
    queues.models.enqueue(model);
    queues.secrets.enqueue(keyOf({ namespace: model.split("/")[0], name }));
  }
}

function noteNode(ports: ChangePorts, node: Node | undefined, before: Node | undefined): void {
  const readNode = ports.fitness?.readNode;
  const isOther = costOf(node) !== costOf(before);
  if (isOther || !isDeepEqual(node && readNode?.(node), before && readNode?.(before))) enqueueAuto(ports);
  enqueueWaitingForFlavor(ports, node, before);
  if (isNodeReady(node) !== isNodeReady(before))
    enqueueServicesOfPodsOn(ports, (node ?? before)?.metadata.name);
}

/** Enqueues services that may get a better flavor. The status of machines changes often, so only changes of room count. */
function enqueueWaitingForFlavor(
  { queues, flavors }: ChangePorts,
  machine: Host | Node | undefined,
  before: Host | Node | undefined,
): void {
  const waiting = [...flavors.waiting()];
  if (waiting.length === 0 || isDeepEqual(roomFactsOf(machine), roomFactsOf(before))) return;
  for (const key of waiting) queues.services.enqueue(key);
}

/** The parts of a Host or a Node that decide whether replicas may start there. */
function roomFactsOf(machine: Host | Node | undefined): unknown {
  if (machine === undefined) return undefined;
  const { metadata, spec, status } = machine;
  const conditions = (status?.conditions ?? []).map(({ type, status: is }) => [type, is]);
  const allocatable = status !== undefined && "allocatable" in status ? status.allocatable : undefined;
  return [metadata.labels, spec, conditions, allocatable];
}

/** A replica that is new, changed or gone. */
function noteShown(
  { queues, memory }: ChangePorts,
  replica: InferenceReplica | undefined,
  before: InferenceReplica | undefined,
): void {
  const shown = replica ?? before;
  if (shown === undefined) return;
  memory.noteSeen(shown, replica === undefined);
  if (replica !== undefined && before !== undefined) return;
  // The Secrets that a replica names never change.
  if (replicaSecretsOf(shown).length > 0) queues.secrets.enqueue(accessKeyOf(shown));
}

function noteReplica(
  { scheduler, watches, clock, idle }: ChangePorts,
  key: string,
  replica: InferenceReplica | undefined,
): void {
  if (replica === undefined) {
    scheduler.noteClaim(key, undefined);
    return;
  }
  const owner = serviceKeyOf(replica);
  const service = watches.services.get(owner);
  scheduler.noteClaim(key, claimOfReplica(replica, service, momentOf(clock), idle.offer(owner)));
}

function serviceKeyOf({ metadata, spec }: InferenceReplica): string {
  return keyOf({ namespace: metadata.namespace, name: spec.template.serviceName });
}

function enqueueServicesOn({ queues, watches }: ChangePorts, host: string): void {
  for (const { metadata, spec } of watches.replicasOfHost.of(host)) {
    queues.services.enqueue(keyOf({ namespace: metadata.namespace, name: spec.template.serviceName }));
  }
}

/** The pods of a node become unready at the same moment as the node, and either watch may be ahead. */
function enqueueServicesOfPodsOn({ queues, watches }: ChangePorts, node: string | undefined): void {
  for (const pod of watches.pods.list())
    if (pod.spec.nodeName === node) for (const key of serviceOfPod(pod)) queues.services.enqueue(key);
}

function costOf(node: Node | undefined): string | undefined {
  return node?.metadata.annotations?.[ANNOTATION_COST];
}

function enqueueAuto({ queues, watches }: ChangePorts): void {
  for (const { metadata, spec } of watches.services.list())
    if (spec.placement.mode === "Auto") queues.services.enqueue(keyOf(metadata));
}

/** The demands of pending services have the earlier speeds. */
function noteBenchmarks(ports: ChangePorts): void {
  const { queues, scheduler } = ports;
  queues.placement.enqueue("all");
  enqueueAuto(ports);
  for (const key of scheduler.pending()) queues.services.enqueue(key);
  enqueueWithoutSpeed(ports);
}

/** Enqueues services on hosts whose condition SpeedKnown may become True. */
function enqueueWithoutSpeed({ queues, watches }: ChangePorts): void {
  for (const { metadata, status } of watches.services.list()) {
    const known = getCondition(status?.conditions, "SpeedKnown");
    if (known !== undefined && known.status !== "True") queues.services.enqueue(keyOf(metadata));
  }
}

/** The parts of a host on which condition SpeedKnown depends. */
function speedFactsOf(host: Host | undefined): readonly unknown[] | undefined {
  if (host === undefined) return undefined;
  const { metadata, spec, status } = host;
  const live = status?.models?.filter(({ tokensPerSecond = 0 }) => tokensPerSecond > 0);
  const sources = live?.map(({ source }) => source).sort();
  return [deviceClassOfHost(host), metadata.labels, spec.unschedulable, runtimesOf(host), sources];
}

/** Enqueues queued services without spec.runtime, which may now get another runtime. */
function enqueuePending({ queues, watches, scheduler }: ChangePorts): void {
  for (const key of scheduler.pending())
    if (watches.services.get(key)?.spec.runtime === undefined) queues.services.enqueue(key);
}

function runtimesOf(host: Host | undefined): string {
  return JSON.stringify((host?.status?.runtimes ?? []).map(({ name }) => name).sort());
}

/** The status of a Model lists the hosts that have it. */
function enqueueModelsOf({ queues, watches }: ChangePorts, source: string): void {
  for (const { metadata } of watches.modelsOfSource.of(source)) {
    queues.models.enqueue(keyOf(metadata));
  }
}

/** The status of a Model reports that a Host's list has no room for it, so it depends on the other Models in the list. */
function enqueueModelsWithoutRoom({ queues, watches }: ChangePorts, host: Host): void {
  for (const { metadata } of modelsWithoutRoom(host, watches.prefetchedModels.of("all")))
    queues.models.enqueue(keyOf(metadata));
}

/** Sources of which a host has gained, lost or changed a copy. Other facts about copies are not in the status of a Model. */
function changedSources(before: Host | undefined, after: Host | undefined): ReadonlySet<string> {
  const old = before?.status?.models ?? [];
  const now = after?.status?.models ?? [];
  const shown = ({ source, sha256, sizeBytes }: HostModel) => JSON.stringify([source, sha256, sizeBytes]);
  const changed = (all: readonly HostModel[], others: readonly HostModel[]) => {
    const known = new Set(others.map(shown));
    return all.filter((model) => !known.has(shown(model))).map(({ source }) => source);
  };
  return new Set([...changed(old, now), ...changed(now, old)]);
}

/** `namespace/name` of Models that were added to or removed from a host's prefetch list, or whose state on the host changed. */
function changedPrefetches(before: Host | undefined, after: Host | undefined): ReadonlySet<string> {
  const textsOf = (host: Host | undefined): ReadonlyMap<string, string> => {
    const { wanted = [], models = [] } = host?.status?.prefetch ?? {};
    const texts = new Map(wanted.map((order) => [keyOf(order), JSON.stringify(order)]));
    for (const { model, phase, reason, message } of models)
      if (model !== undefined)
        texts.set(model, `${texts.get(model) ?? ""} ${JSON.stringify([phase, reason, message])}`);
    return texts;
  };
  const [old, now] = [textsOf(before), textsOf(after)];
  return new Set([...old.keys(), ...now.keys()].filter((key) => old.get(key) !== now.get(key)));
}

/** Fields of a host that its replicas' slices depend on, and whether the replicas have to move. */
function servingFactsOf(host: Host | undefined): string {
  const { spec, status } = host ?? {};
  return JSON.stringify([spec?.addresses, status?.addresses, spec?.drain, status?.transport]);
}
