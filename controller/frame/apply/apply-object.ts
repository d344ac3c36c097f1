/** Applies one object of a service by server-side apply, unless another owner has it. */

import { ANNOTATION_APPLIED, MANAGER_CONTROLLER } from "../../../src/api/group.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import { isEqual } from "../../../src/kube/apply/differs.ts";
import type { ApiFailure, Kind, KubeObject } from "../../../src/kube/types.ts";
import { canonicalJson, hash } from "../../../src/util/hash.ts";
import { ownedRow, uidLabelOf } from "../owned/kinds.ts";
import type { ServiceStep } from "../owned/steps.ts";
import { handleForeignObject } from "./create.ts";
import { isTerminating } from "./failure.ts";
import { type ApplyRun, recordResult, reject, type StepPorts } from "./run.ts";

type ApplyStep = Extract<ServiceStep, { readonly do: "apply" }>;

const MARK_DIGITS = 16;

/** Does not touch objects of other owners. `run.restored` names objects that another client had edited. */
export async function applyObject(ports: StepPorts, run: ApplyRun, step: ApplyStep): Promise<void> {
  const { kind } = ownedRow(step.what);
  const desired = marked(step.object);
  const label = `${kind.kind} ${desired.metadata.name}`;
  const current = step.current ?? (await readLive(ports, run, kind, desired));
  if (current === NOT_OURS) return;
  if (current !== undefined && isBeingDeleted(current)) {
    run.isBehind = true;
    return;
  }
  const result = await ports.client.apply(kind, desired, { manager: MANAGER_CONTROLLER, current });
  if (!result.ok) {
    if (isTerminating(result.error)) run.obstacle = { at: "terminating" };
    else if (current !== undefined && isImmutable(result.error)) await replace(ports, run, kind, current);
    else recordResult(run, `apply ${label}`, result);
  } else if (result.value.sent) {
    run.applied.set(step.what, result.value.object);
    if (wasEdited(current, result.value.object, desired)) run.restored.push(label);
  }
}

/** Deletes an object with an edit in an immutable field. A later pass recreates the object. */
async function replace({ client }: StepPorts, run: ApplyRun, kind: Kind<KubeObject>, current: KubeObject) {
  const { name, uid } = current.metadata;
  const removed = await client.remove(kind, current.metadata, { uid, propagation: "Background" });
  recordResult(run, `delete ${kind.kind} ${name}`, removed);
  if (!removed.ok) return;
  run.restored.push(`${kind.kind} ${name}`);
  run.isBehind = true;
}

function isImmutable({ kind, message }: ApiFailure): boolean {
  return kind === "invalid" && message.includes("field is immutable");
}

const NOT_OURS = Symbol("an object of another owner");

/** Reads an object that the cache lacks, because an apply would take over an existing object of the same name. */
async function readLive(
  { client }: StepPorts,
  run: ApplyRun,
  kind: Kind<KubeObject>,
  desired: KubeObject,
): Promise<KubeObject | undefined | typeof NOT_OURS> {
  const live = await client.get(kind, desired.metadata);
  if (live.ok && uidLabelOf(live.value) === uidLabelOf(desired)) return live.value;
  if (!live.ok && live.error.kind === "notFound") return undefined;
  if (live.ok) handleForeignObject(run, kind, live.value, desired);
  else reject(run, `read ${kind.kind} ${desired.metadata.name}`, live.error);
  return NOT_OURS;
}

/** The mark distinguishes an edit by another client from a change of the service. */
export function marked(object: KubeObject): KubeObject {
  const mark = hash(canonicalJson(object), MARK_DIGITS);
  const annotations = { ...object.metadata.annotations, [ANNOTATION_APPLIED]: mark };
  return { ...object, metadata: { ...object.metadata, annotations } };
}

/**
 * True if an apply of the same content has changed the object, so another client had edited it. It is false if an admission
 * webhook rewrites the object each time, or if the cache was only behind.
 */
export function wasEdited(before: KubeObject | undefined, after: KubeObject, desired: KubeObject): boolean {
  const markOf = ({ metadata }: KubeObject) => metadata.annotations?.[ANNOTATION_APPLIED];
  return (
    before !== undefined &&
    markOf(before) === markOf(desired) &&
    !isEqual(ownPart(before, desired), ownPart(after, desired))
  );
}

/** The part of an object that is ours, without fields of the server and of other clients. */
function ownPart(object: KubeObject & { readonly status?: unknown }, desired: KubeObject): object {
  const { metadata, status: _, ...rest } = object;
  const { labels = {}, annotations = {} } = desired.metadata;
  return {
    ...rest,
    labels: Object.keys(labels).map((key) => metadata.labels?.[key]),
    annotations: Object.keys(annotations).map((key) => metadata.annotations?.[key]),
  };
}
