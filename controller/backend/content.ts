/** Chooses the content of a BackendRuntime that a service uses: what it was rendered with, until its spec changes or a restart is requested. */
import type { BackendRuntime, BackendRuntimeSpec } from "../../src/api/backend-runtime.ts";
import { ANNOTATION_BACKEND_REQUEST, ANNOTATION_RESTARTED_AT } from "../../src/api/group.ts";
import type { InferenceService, InferenceServiceStatus } from "../../src/api/inference-service/index.ts";
import { keyOf } from "../../src/api/names.ts";
import type { Blocked } from "../../src/capacity/resolve.ts";
import { newestRevision, revisionSpec, storedBackend } from "../../src/capacity/revision-data.ts";
import type { ControllerRevision } from "../../src/kube/objects.ts";
import { canonicalJson, hash } from "../../src/util/hash.ts";
import { uidLabelOf } from "../service/owned/kinds.ts";
import type { RequestedBackend } from "../service/owned/revisions.ts";
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
 * `runtime` is undefined if it does not exist; `revisions` are those of the service. With placement.on Auto, only one side may have
 * been rendered since the last change.
 */
function chooseBackend(
  service: InferenceService,
  runtime: BackendRuntime | undefined,
  revisions: readonly ControllerRevision[],
): ChosenBackend | undefined {
  const request = requestOf(service);
  const kept = (["Hosts", "Pods"] as const)
    .flatMap((side) => newestRevision(revisions, side) ?? [])
    .sort((a, b) => b.revision - a.revision)
    .flatMap((newest) => {
      const stored = storedBackend(newest);
      if (stored === undefined || stored.name !== service.spec.backendRuntime?.name) return [];
      return {
        ...stored,
        isRequested: newest.metadata.annotations?.[ANNOTATION_BACKEND_REQUEST] === request,
      };
    });
  const requested = kept.find(({ isRequested }) => isRequested);
  if (runtime === undefined) {
    const used = requested ?? kept[0];
    return used && { ...used, request, is: "Deleted" };
  }
  const { spec, metadata } = runtime;
  const revision = revisionOfBackend(spec);
  return requested === undefined || requested.revision === revision
    ? { name: metadata.name, spec, revision, request, is: "Current" }
    : { ...requested, request, is: "Outdated" };
}

type Used = NonNullable<InferenceServiceStatus["backendRuntime"]>;

/** What the service reports of the BackendRuntime that it names. */
export function usedBackend({ spec, status }: InferenceService): Used | undefined {
  const used = status?.backendRuntime;
  return used?.name === spec.backendRuntime?.name ? used : undefined;
}

const digests = new WeakMap<object, string>();

/** Identifies the content of a BackendRuntime. */
export function revisionOfBackend(spec: BackendRuntimeSpec): string {
  return digestOnce(spec, () => spec);
}

/** Changes with each change of the spec that replaces engines, and with each request for a restart. */
function requestOf(service: InferenceService): string {
  const { spec, metadata } = service;
  return digestOnce(service, () => [
    revisionSpec(spec),
    revisionSpec(spec, undefined, "Pods"),
    metadata.annotations?.[ANNOTATION_RESTARTED_AT],
  ]);
}

/** The watches deliver a new object with each change. */
function digestOnce(object: object, content: () => unknown): string {
  const digest = digests.get(object) ?? hash(canonicalJson(content()));
  digests.set(object, digest);
  return digest;
}
