/** Chooses the content of a BackendRuntime that a service uses: what it was rendered with, until its spec changes or a restart is requested. */
import type { BackendRuntime, BackendRuntimeSpec } from "../../../src/api/backend-runtime.ts";
import { ANNOTATION_BACKEND_REQUEST, ANNOTATION_RESTARTED_AT } from "../../../src/api/group.ts";
import type { InferenceService, InferenceServiceStatus } from "../../../src/api/inference-service/index.ts";
import { keyOf } from "../../../src/api/names.ts";
import type { Blocked } from "../../../src/capacity/resolve.ts";
import { revisionSpec, type Side, sideOf, storedBackend } from "../../../src/capacity/revision-data.ts";
import type { ControllerRevision } from "../../../src/kube/objects.ts";
import { canonicalJson, hash } from "../../../src/util/hash.ts";
import { uidLabelOf } from "../owned/kinds.ts";
import type { BackendRequests, RequestedBackend } from "../owned/revisions.ts";
import type { Watches } from "../watches/watches.ts";

/** The content that a service uses, and whether that is the current content. */
export interface ChosenBackend extends RequestedBackend {
  readonly is: "Current" | "Outdated" | "Deleted";
}

export type BackendFacts = {
  readonly backendRuntimes: Pick<Watches["backendRuntimes"], "get">;
  readonly backendsProblem: Watches["backendsProblem"];
  readonly ofService: { readonly revisions: Pick<Watches["ofService"]["revisions"], "of"> };
};

/** Undefined if the service names no BackendRuntime, or if there is no content or it is unknown. */
export function backendOf(
  { backendRuntimes, backendsProblem, ofService }: BackendFacts,
  service: InferenceService,
): ChosenBackend | undefined {
  const { metadata, spec } = service;
  const { name } = spec.backendRuntime ?? {};
  if (name === undefined || backendsProblem() !== undefined) return undefined;
  const revisions = ofService.revisions.of(keyOf(metadata));
  const own = revisions.filter((revision) => uidLabelOf(revision) === metadata.uid);
  return chooseBackend(service, backendRuntimes.get(name), own);
}

/** Why a service that names a BackendRuntime has to wait, whatever its content. */
export function backendBlocked(
  { backendsProblem }: Pick<BackendFacts, "backendsProblem">,
  { spec }: InferenceService,
): Blocked | undefined {
  const problem = spec.backendRuntime && backendsProblem();
  if (problem === undefined) return undefined;
  const message = `cannot read BackendRuntime ${spec.backendRuntime?.name}: ${problem}`;
  return { at: "blocked", code: "BackendRuntimesUnavailable", message, isFinal: false };
}

/**
 * `runtime` is undefined if it does not exist; `revisions` are those of the service. Any of them that was rendered for the same
 * request has the content, not only the newest: a rollback then returns to what still serves.
 */
function chooseBackend(
  service: InferenceService,
  runtime: BackendRuntime | undefined,
  revisions: readonly ControllerRevision[],
): ChosenBackend | undefined {
  const request = requestsOf(service);
  const kept = revisions
    .toSorted((a, b) => b.revision - a.revision)
    .filter((one) => storedBackend(one)?.name === service.spec.backendRuntime?.name);
  const isRequested = (one: ControllerRevision) =>
    one.metadata.annotations?.[ANNOTATION_BACKEND_REQUEST] === request[sideOf(one)];
  const requested = contentOf(kept.find(isRequested));
  if (runtime === undefined) {
    const used = requested ?? contentOf(kept[0]);
    return used && { ...used, request, is: "Deleted" };
  }
  const { spec, metadata } = runtime;
  const revision = revisionOfBackend(spec);
  return requested === undefined || requested.revision === revision
    ? { name: metadata.name, spec, revision, request, is: "Current" }
    : { ...requested, request, is: "Outdated" };
}

const contentOf = (revision: ControllerRevision | undefined) => revision && storedBackend(revision);

type Used = NonNullable<InferenceServiceStatus["backendRuntime"]>;

/** What the service reports of the BackendRuntime that it names. */
export function usedBackend({ spec, status }: InferenceService): Used | undefined {
  const used = status?.backendRuntime;
  return used?.name === spec.backendRuntime?.name ? used : undefined;
}

/** The watches deliver a new object with each change. */
const digests = new WeakMap<BackendRuntimeSpec, string>();

/** Identifies the content of a BackendRuntime. */
export function revisionOfBackend(spec: BackendRuntimeSpec): string {
  const digest = digests.get(spec) ?? hash(canonicalJson(spec));
  digests.set(spec, digest);
  return digest;
}

const requests = new WeakMap<InferenceService, BackendRequests>();

/** By side, because fields of pods replace no engine on hosts. Each changes with a change that replaces engines, and with a restart. */
function requestsOf(service: InferenceService): BackendRequests {
  const { spec, metadata } = service;
  const restartedAt = metadata.annotations?.[ANNOTATION_RESTARTED_AT];
  const requestOn = (side: Side) => hash(canonicalJson([revisionSpec(spec, undefined, side), restartedAt]));
  const known = requests.get(service) ?? { Hosts: requestOn("Hosts"), Pods: requestOn("Pods") };
  requests.set(service, known);
  return known;
}
