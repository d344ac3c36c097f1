/** Runs a probe pod in the cluster, with the image of the controller, and always deletes it. */

import { runProbe } from "../../controller/pods/probe.ts";
import type { ProbeEnd, ProbeFailure } from "../../controller/pods/workload/one-shot-pod.ts";
import { DEPLOYMENTS, PODS } from "../../src/kube/kinds.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { ApiResult } from "../../src/kube/types.ts";
import type { Deployment, Pod } from "../../src/kube/workload-objects.ts";
import { printNote } from "../program/output.ts";
import type { Cluster } from "./cluster.ts";

const CONTROLLER = "app.kubernetes.io/name=metalbridge,app.kubernetes.io/component=controller";

/** Undefined if there is no controller, or if it cannot be read. `namespace`: where it must be. */
export async function findController({ client }: Cluster, namespace?: string) {
  const found = await client.list<Deployment>(DEPLOYMENTS, { namespace, labelSelector: CONTROLLER });
  const controller = found.ok ? found.value.items[0] : undefined;
  const { containers = [], imagePullSecrets = [] } = controller?.spec.template.spec ?? {};
  const image = containers[0]?.image;
  return image === undefined
    ? undefined
    : { image, pullSecrets: imagePullSecrets, namespace: controller?.metadata.namespace };
}

export interface ProbeOptions {
  /** The user's Ctrl-C. */
  readonly signal: AbortSignal;
  readonly limitMs: number;
  /** Ends the wait for a pod that its node will not run. */
  readonly nodeFailure?: () => Promise<ProbeFailure | undefined>;
}

/** Resolves to undefined if the user stopped the command. */
export async function runProbePod(
  { client }: Cluster,
  pod: Pod,
  { signal, ...limits }: ProbeOptions,
): Promise<ApiResult<ProbeEnd | undefined>> {
  try {
    return await runProbe({ client, clock: systemClock, signal }, pod, limits);
  } finally {
    const { name, namespace } = pod.metadata;
    // Also after a refused creation: the pod may exist if only the response was lost.
    const removed = await client.remove(PODS, { name, namespace });
    if (!removed.ok && removed.error.kind !== "notFound")
      printNote(`pod ${name} was not deleted: ${removed.error.message}`);
  }
}
