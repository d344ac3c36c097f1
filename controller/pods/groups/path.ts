/** The path of services with spec.group: the controller applies a LeaderWorkerSet, whose own controller runs the groups of pods. */
import { LWS_INSTALL } from "../../../src/api/errors/pods.ts";
import type { Blocked } from "../../../src/capacity/resolve.ts";
import type { LeaderWorkerSet } from "../../../src/kube/workload-objects.ts";
import { isoSeconds } from "../../../src/util/iso-seconds.ts";
import type { OwnedObjects } from "../../frame/owned/observe.ts";
import { removals } from "../../frame/owned/teardown.ts";
import { type LiveService, type PathResult, type ServicePath, soonest } from "../../frame/service/path.ts";
import { groupKindOf } from "../../frame/watches/group-kind.ts";
import {
  CONFLICT_RETRY_MS,
  observePods,
  offloadOf,
  podsInputOf,
  reportRestored,
  updateQueue,
} from "../pass.ts";
import { planPods } from "../plan.ts";
import { countRefused, isInGroup } from "../pods.ts";
import type { PodsPorts } from "../ports.ts";
import { readQuota } from "../quota.ts";
import { planPodsStatus } from "../status.ts";
import { resolveGroups } from "../workload/resolve.ts";
import { isLeader, readGroups } from "./groups.ts";

export function createGroupsPath(ports: PodsPorts): ServicePath {
  return {
    on: "Pods",
    names: "groups of pods",
    takes: ({ spec }) => spec.group !== undefined,
    prepare: ({ key, own }) => updateQueue(ports, key, readGroups(ownPods(own))),
    reconcile: (live) => reconcile(ports, { ...live, own: { ...live.own, pods: ownPods(live.own) } }),
    release: (key) => {
      ports.offloads.forget(key);
      ports.onPositions(ports.podsQueue.set(key, undefined));
    },
    serving: (own) => readGroups(ownPods(own)).ready,
    leave: ({ groups }) => removals("groups", groups, "the spec no longer requests groups of pods"),
  };
}

function ownPods({ pods }: OwnedObjects) {
  return pods.filter(isInGroup);
}

async function reconcile(ports: PodsPorts, live: LiveService): Promise<PathResult> {
  const { key, service, own } = live;
  const { watches, clock } = ports;
  const input = podsInputOf(ports, live);
  const { model } = input;
  const [current] = own.groups;
  const observed = await observePods(ports, own);
  const { ready, live: running, keyless } = readGroups(own.pods);
  const pods = { ...observed.pods, ready, live: running, keyless };
  const resolution = missingKind(ports) ?? live.blocked ?? resolveGroups(input);
  const hasPodMonitors = watches.podMonitors.isSynced();
  const steps = planPods({ service, own, model, backend: live.backend, resolution, hasPodMonitors });
  const { obstacle, restored, applied, isBehind, rejections } = await ports.apply(steps);
  reportRestored(ports, service, restored);
  updateQueue(ports, key, pods);
  const status = planPodsStatus(
    {
      service,
      model,
      resolution,
      deployment: (applied.get("groups") as LeaderWorkerSet | undefined) ?? current,
      pods,
      deferral: undefined,
      offload: offloadOf(ports, key, resolution, own.pods.filter(isLeader)),
      quota: readQuota(service, own.pods, watches.queueWorkloadsOfOwner.of),
      queuePosition: ports.podsQueue.positionOf(key),
      obstacle,
      rejections,
    },
    isoSeconds(clock.nowMs()),
  );
  return {
    status,
    obstacle,
    rejections,
    lacking: countRefused(pods),
    ...soonest([isBehind ? CONFLICT_RETRY_MS : undefined, observed.recheckAfterMs]),
  };
}

/** Undefined if the cluster can run groups. The watch of the definition starts a new pass once it is installed. */
function missingKind({ watches }: PodsPorts): Blocked | undefined {
  const kind = groupKindOf(watches);
  if (kind.at === "installed") return undefined;
  const what =
    kind.at === "missing"
      ? "the cluster lacks LeaderWorkerSet, which runs groups of pods"
      : `LeaderWorkerSet is installed in version ${kind.served.join(", ")}, and groups of pods need v1`;
  const message = `${what}; install it: ${LWS_INSTALL}`;
  return { at: "blocked", code: "LeaderWorkerSetMissing", message, isFinal: false };
}
