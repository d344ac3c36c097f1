/** Server-side apply of one object of a service, with who may own it. */
import { ANNOTATION_APPLIED, MANAGER_CONTROLLER } from "../../../src/api/group.ts";
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

/** An object of another owner is left alone; `Run.restored` names one that another client had edited. */
export async function applyObject(ports: StepPorts, run: ApplyRun, step: ApplyStep): Promise<void> {
  const { kind } = ownedRow(step.what);
  const wanted = marked(step.object);
  const what = `${kind.kind} ${wanted.metadata.name}`;
  const current = step.current ?? (await readLive(ports, run, kind, wanted));
  if (current === NOT_OURS) return;
  if (current?.metadata.deletionTimestamp !== undefined) {
    run.isBehind = true;
    return;
  }
  const result = await ports.client.apply(kind, wanted, { manager: MANAGER_CONTROLLER, current });
  if (!result.ok) {
    if (isTerminating(result.error)) run.obstacle = { at: "terminating" };
    else if (current !== undefined && isImmutable(result.error)) await replace(ports, run, kind, current);
    else recordResult(run, `apply ${what}`, result);
  } else if (result.value.sent) {
    run.applied.set(step.what, result.value.object);
    if (wasEdited(current, result.value.object, wanted)) run.restored.push(what);
  }
}

/** What cannot be restored field by field; a later pass recreates the object. */
async function replace({ client }: StepPorts, run: ApplyRun, kind: Kind<KubeObject>, current: KubeObject) {
  const what = `${kind.kind} ${current.metadata.name}`;
  const { uid } = current.metadata;
  const options = uid === undefined ? {} : { uid };
  const removed = await client.remove(kind, current.metadata, { ...options, propagation: "Background" });
  recordResult(run, `delete ${what}`, removed);
  if (!removed.ok) return;
  run.restored.push(what);
  run.isBehind = true;
}

function isImmutable({ kind, message }: ApiFailure): boolean {
  return kind === "invalid" && message.includes("field is immutable");
}

const NOT_OURS = Symbol("an object of another owner");

/** What the cache does not show: an apply would take over whatever has the name. */
async function readLive(
  { client }: StepPorts,
  run: ApplyRun,
  kind: Kind<KubeObject>,
  wanted: KubeObject,
): Promise<KubeObject | undefined | typeof NOT_OURS> {
  const live = await client.get(kind, wanted.metadata);
  if (live.ok && uidLabelOf(live.value) === uidLabelOf(wanted)) return live.value;
  if (!live.ok && live.error.kind === "notFound") return undefined;
  if (live.ok) handleForeignObject(run, kind, live.value, wanted);
  else reject(run, `read ${kind.kind} ${wanted.metadata.name}`, live.error);
  return NOT_OURS;
}

/** The mark distinguishes an edit by another client from a change of the service. */
function marked(object: KubeObject): KubeObject {
  const mark = hash(canonicalJson(object), MARK_DIGITS);
  const annotations = { ...object.metadata.annotations, [ANNOTATION_APPLIED]: mark };
  return { ...object, metadata: { ...object.metadata, annotations } };
}

/**
 * Whether an apply of what was applied before has changed something. What an admission webhook rewrites each time stays as
 * it was; so does all but the status, where the cache was only behind.
 */
export function wasEdited(before: KubeObject | undefined, after: KubeObject, wanted: KubeObject): boolean {
  const markOf = ({ metadata }: KubeObject) => metadata.annotations?.[ANNOTATION_APPLIED];
  return (
    before !== undefined &&
    markOf(before) === markOf(wanted) &&
    !isEqual(ownPart(before, wanted), ownPart(after, wanted))
  );
}

/** Without what the server and other clients keep in it. */
function ownPart(object: KubeObject & { readonly status?: unknown }, wanted: KubeObject): object {
  const { metadata, status: _, ...rest } = object;
  const { labels = {}, annotations = {} } = wanted.metadata;
  return {
    ...rest,
    labels: Object.keys(labels).map((key) => metadata.labels?.[key]),
    annotations: Object.keys(annotations).map((key) => metadata.annotations?.[key]),
  };
}
