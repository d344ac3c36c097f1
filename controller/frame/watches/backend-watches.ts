/** The watch of BackendRuntimes. A cluster whose CRDs or permissions are older lacks them. */
import type { BackendRuntime } from "../../../src/api/backend-runtime.ts";
import { CHART_UPGRADE } from "../../../src/api/errors/backend.ts";
import { BACKEND_RUNTIMES } from "../../../src/api/kinds.ts";
import type { Grouping } from "../../../src/cluster/grouping.ts";
import { REASON_KIND_NOT_INSTALLED } from "../../../src/kube/errors.ts";
import type { KubeObject, Reflector } from "../../../src/kube/types.ts";
import type { Emit, StartWatch } from "./contract.ts";
import { specVersionOf } from "./spec-version.ts";

export interface BackendWatches {
  readonly backendRuntimes: Reflector<BackendRuntime>;
  /** Resolves once the list is complete, or the cluster is known to lack the CRD or the permission to read it. */
  readonly whenBackendsKnown: () => Promise<unknown>;
  /** Why they cannot be read: the current content is unknown. Undefined once the list is complete. */
  readonly backendsProblem: () => string | undefined;
}

export interface BackendGroupings {
  /** Names of BackendRuntimes that services use. */
  readonly servicesOfBackend: Pick<Grouping<KubeObject>, "groups">;
}

export function startBackendWatches(
  start: StartWatch,
  { servicesOfBackend }: BackendGroupings,
  emit: Emit,
): BackendWatches {
  const { plural, group } = BACKEND_RUNTIMES;
  const { promise: whenKnown, resolve } = Promise.withResolvers<void>();
  let problem: string | undefined = `${plural} have not been listed yet`;
  const backendRuntimes = start({
    kind: BACKEND_RUNTIMES,
    onFailure: ({ kind, reason, message }) => {
      const isMissing = reason === REASON_KIND_NOT_INSTALLED;
      if (problem === undefined || (!isMissing && kind !== "forbidden")) return;
      problem = isMissing
        ? `the cluster lacks the CRD ${plural}.${group}; ${UPGRADE} (without Helm: metalbridge crds | kubectl apply --server-side -f -)`
        : `the controller lacks a permission: ${message}; ${UPGRADE} (without Helm: kubectl apply --server-side -f examples/install)`;
      resolve();
    },
    onSynced: () => {
      problem = undefined;
      resolve();
      emit((on) => servicesOfBackend.groups().forEach(on.onBackend));
    },
    onChange: (name, runtime, before) => {
      const isSame = specVersionOf(runtime) === specVersionOf(before);
      emit((on) => (isSame ? on.onBackendMember : on.onBackend)(name));
    },
  });
  return { backendRuntimes, whenBackendsKnown: () => whenKnown, backendsProblem: () => problem };
}

const UPGRADE = `upgrade the chart: ${CHART_UPGRADE}`;
