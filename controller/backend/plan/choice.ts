/** Chooses the revision of a BackendRuntime that a service uses. Pure. */
import type { BackendRuntime } from "../../../src/api/backend-runtime.ts";
import { ANNOTATION_RESTARTED_AT } from "../../../src/api/group.ts";
import type { InferenceService, InferenceServiceStatus } from "../../../src/api/inference-service/index.ts";
import { revisionSpec } from "../../../src/capacity/revision-data.ts";
import type { ControllerRevision } from "../../../src/kube/objects.ts";
import { canonicalJson, hash } from "../../../src/util/hash.ts";
import { type BackendRevision, revisionOfBackend, storedBackend } from "./revision.ts";

export interface BackendObserved {
  /** Undefined if it does not exist. */
  readonly runtime: BackendRuntime | undefined;
  /** The stored revisions of this BackendRuntime. */
  readonly stored: readonly ControllerRevision[];
}

/** The content that a service uses, and whether that is the current content. */
export interface ChosenBackend extends BackendRevision {
  readonly is: "Current" | "Outdated" | "Deleted";
  readonly request: string;
}

type Used = NonNullable<InferenceServiceStatus["backendRuntime"]>;

/** `granted` is the revision to which the rollout of the BackendRuntime has admitted the service. Undefined if there is no content. */
export function chooseBackend(
  service: InferenceService,
  { runtime, stored }: BackendObserved,
  granted: string | undefined,
): ChosenBackend | undefined {
  const request = requestOf(service);
  const used = usedBackend(service);
  const kept = used && find(stored, used.revision);
  if (runtime === undefined) return kept && { ...kept, is: "Deleted", request };
  const { spec, metadata } = runtime;
  const revision = revisionOfBackend(spec);
  const isRequested = spec.rolloutPolicy === "OnRequest" && used?.request !== request;
  if (kept === undefined || kept.revision === revision || granted === revision || isRequested)
    return { name: metadata.name, spec, revision, is: "Current", request };
  // The request stays unanswered until the service is updated.
  return { ...kept, is: "Outdated", request: used?.request ?? request };
}

/** What the service uses of the BackendRuntime that it names. */
export function usedBackend({ spec, status }: InferenceService): Used | undefined {
  const used = status?.backendRuntime;
  return used?.name === spec.backendRuntime?.name ? used : undefined;
}

function find(stored: readonly ControllerRevision[], revision: string): BackendRevision | undefined {
  return stored.map(storedBackend).find((one) => one?.revision === revision);
}

const digests = new WeakMap<InferenceService, string>();

/** Changes with each change of the spec that replaces engines, and with each request for a restart. */
function requestOf(service: InferenceService): string {
  const known = digests.get(service);
  if (known !== undefined) return known;
  const { spec, metadata } = service;
  const parts = [revisionSpec(spec), revisionSpec(spec, undefined, "Pods")];
  const digest = hash(canonicalJson([...parts, metadata.annotations?.[ANNOTATION_RESTARTED_AT]]));
  digests.set(service, digest);
  return digest;
}
