/** Creates one object of a service, or records why that is impossible. */

import { LABEL_HOST, LABEL_SERVICE } from "../../../src/api/group.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import type { Kind, KubeObject } from "../../../src/kube/types.ts";
import { type Owned, type OwnedKind, ownedRow, uidLabelOf } from "../owned/kinds.ts";
import { isTerminating } from "./failure.ts";
import { type ApplyRun, reject, type StepPorts } from "./run.ts";

/** Does not touch objects of other owners. */
export async function create<K extends OwnedKind>(
  ports: StepPorts,
  run: ApplyRun,
  what: K,
  object: Owned[K],
): Promise<void> {
  const { client, log } = ports;
  const { kind } = ownedRow(what);
  const { name } = object.metadata;
  if (what === "slices" && isOfMissingReplica(run, object)) return;
  const result = await client.create(kind, object as KubeObject);
  if (result.ok) {
    if (what === "replicas") {
      run.created.push(result.value as InferenceReplica);
      run.made.push(result.value as InferenceReplica);
      log.info(
        { replica: name, host: (object as InferenceReplica).spec.template.hostName },
        "replica created",
      );
    }
    return;
  }
  if (isTerminating(result.error)) {
    run.obstacle = { at: "terminating" };
    return;
  }
  if (result.error.kind !== "alreadyExists") {
    reject(run, `create ${kind.kind} ${name}`, result.error);
    if (what === "kubeServices") run.isWithoutService = true;
    return;
  }
  await handleExisting(ports, run, what, object);
}

/** For an object that an earlier pass or another client created. */
async function handleExisting<K extends OwnedKind>(
  { client }: StepPorts,
  run: ApplyRun,
  what: K,
  object: Owned[K],
): Promise<void> {
  const { kind } = ownedRow(what);
  const { name, namespace } = object.metadata;
  const live = await client.get(kind, { name, namespace });
  if (live.ok && uidLabelOf(live.value) === uidLabelOf(object) && !isBeingDeleted(live.value)) {
    if (what === "replicas") run.created.push(live.value as InferenceReplica);
    return;
  }
  if (!live.ok || uidLabelOf(live.value) === uidLabelOf(object)) run.isBehind = true;
  else if (what === "kubeServices") run.obstacle = { at: "nameTaken", message: takenMessage(kind, name) };
  else handleForeignObject(run, kind, live.value, object);
}

/** For an object of another owner with the same name, which is not touched. */
export function handleForeignObject(
  run: ApplyRun,
  kind: Kind<KubeObject>,
  live: KubeObject,
  desired: KubeObject,
): void {
  const { name } = desired.metadata;
  // Objects of an earlier service of the same name are removed separately.
  if (isOfThisName(live, desired)) {
    run.isBehind = true;
    return;
  }
  const message = takenMessage(kind, name);
  run.rejections.push({ what: `create ${kind.kind} ${name}`, code: "ObjectNameTaken", message });
}

/** True if the pass did not create the planned replica of a slice, which names the replica's host. */
function isOfMissingReplica({ planned, created }: ApplyRun, { metadata }: KubeObject): boolean {
  if (!planned.has(metadata.name)) return false;
  const replica = created.find((one) => one.metadata.name === metadata.name);
  return replica?.spec.template.hostName !== metadata.labels?.[LABEL_HOST];
}

function isOfThisName(live: KubeObject, desired: KubeObject): boolean {
  const isLabelled = live.metadata.labels?.[LABEL_SERVICE] === desired.metadata.labels?.[LABEL_SERVICE];
  return uidLabelOf(live) !== undefined && isLabelled;
}

function takenMessage({ kind }: Kind<KubeObject>, name: string): string {
  return `a ${kind} named ${name} exists that is not of this InferenceService; delete or rename it, or choose another name`;
}
