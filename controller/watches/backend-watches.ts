/** The watches of BackendRuntimes and of their stored content. A cluster whose CRDs or permissions are older lacks them. */
import type { BackendRuntime } from "../../src/api/backend-runtime.ts";
import { CHART_UPGRADE } from "../../src/api/errors/backend.ts";
import { LABEL_BACKEND_RUNTIME, NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { BACKEND_RUNTIMES } from "../../src/api/kinds.ts";
import { REASON_KIND_NOT_INSTALLED } from "../../src/kube/errors.ts";
import { CONTROLLER_REVISIONS } from "../../src/kube/kinds.ts";
import type { ControllerRevision } from "../../src/kube/objects.ts";
import type { ApiFailure, Kind, KubeObject, Reflector } from "../../src/kube/types.ts";
import type { Emit, StartWatch } from "./contract.ts";
import type { Grouping } from "./grouping.ts";
import { specVersionOf } from "./spec-version.ts";

export interface BackendWatches {
  readonly backendRuntimes: Reflector<BackendRuntime>;
  /** Content of BackendRuntimes that services use or may use. */
  readonly backendRevisions: Reflector<ControllerRevision>;
  /** Resolves once each is complete, or the cluster is known to lack its CRD or the permission to read it. */
  readonly whenBackendsKnown: () => Promise<unknown>;
  /** Why they cannot be read: the content that services use is unknown. Undefined once both are complete. */
  readonly backendsProblem: () => string | undefined;
}

export interface BackendGroupings {
  /** Names of BackendRuntimes that services use. */
  readonly servicesOfBackend: Pick<Grouping<KubeObject>, "groups">;
  readonly revisionsOfBackend: Pick<Grouping<ControllerRevision>, "note">;
}

export function startBackendWatches(
  start: StartWatch,
  { servicesOfBackend, revisionsOfBackend }: BackendGroupings,
  emit: Emit,
): BackendWatches {
  const runtimes = trackReading(BACKEND_RUNTIMES);
  const revisions = trackReading(CONTROLLER_REVISIONS);
  const backendsProblem = () => runtimes.problem() ?? revisions.problem();
  // Services and rollouts wait for both lists.
  const onComplete = () => {
    if (backendsProblem() === undefined) emit((on) => servicesOfBackend.groups().forEach(on.onBackend));
  };
  return {
    backendRuntimes: start({
      kind: BACKEND_RUNTIMES,
      ...runtimes.handlers(onComplete),
      onChange: (name, runtime, before) => {
        const isSame = specVersionOf(runtime) === specVersionOf(before);
        emit((on) => (isSame ? on.onBackendMember : on.onBackend)(name));
      },
    }),
    backendRevisions: start({
      kind: CONTROLLER_REVISIONS,
      namespace: NAMESPACE_SYSTEM,
      labelSelector: LABEL_BACKEND_RUNTIME,
      ...revisions.handlers(onComplete),
      onChange: (key, revision, before) => {
        const names = revisionsOfBackend.note(key, revision, before);
        emit((on) => names.forEach(on.onBackendMember));
      },
    }),
    whenBackendsKnown: () => Promise.all([runtimes.whenKnown, revisions.whenKnown]),
    backendsProblem,
  };
}

/** Tracks whether a kind has been listed, and why not. */
function trackReading({ plural, group }: Pick<Kind<KubeObject>, "plural" | "group">) {
  const { promise: whenKnown, resolve } = Promise.withResolvers<void>();
  let problem: string | undefined = `${plural} have not been listed yet`;
  const onFailure = ({ kind, reason, message }: ApiFailure) => {
    const isMissing = reason === REASON_KIND_NOT_INSTALLED;
    if (problem === undefined || (!isMissing && kind !== "forbidden")) return;
    problem = isMissing
      ? `the cluster lacks the CRD ${plural}.${group}; ${UPGRADE} (without Helm: metalbridge crds | kubectl apply --server-side -f -)`
      : `the controller lacks a permission: ${message}; ${UPGRADE} (without Helm: kubectl apply --server-side -f examples/install)`;
    resolve();
  };
  return {
    whenKnown,
    problem: () => problem,
    handlers: (onComplete: () => void) => ({
      onFailure,
      onSynced: () => {
        problem = undefined;
        resolve();
        onComplete();
      },
    }),
  };
}

const UPGRADE = `upgrade the chart: ${CHART_UPGRADE}`;
