/** Creates missing objects, and changes no existing object. */
import { MetalbridgeError, remedyOf } from "../../src/api/errors.ts";
import { INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import type { Kind, KubeObject } from "../../src/kube/types.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { explainAttempt } from "../cluster/failure.ts";
import { findIfPresent } from "../cluster/find.ts";
import type { DeployObjects } from "./objects.ts";

/** Checks both objects before it creates one. Throws ServiceExists if a name is taken. */
export async function createObjects(cluster: Cluster, { model, service }: DeployObjects): Promise<void> {
  await create(cluster, INFERENCE_SERVICES, service, { isDryRun: true });
  const { name } = service.metadata;
  const existing =
    model === undefined ? undefined : await findIfPresent(cluster, MODELS, model.metadata.name);
  if (model !== undefined && existing !== undefined && existing.spec.source !== model.spec.source)
    throw new MetalbridgeError(
      "ServiceExists",
      `there is a Model ${name} with another source: ${existing.spec.source}`,
      remedyOf("ServiceExists", { service: `${name} -n ${cluster.namespace}` }),
    );
  if (model !== undefined && existing === undefined) await create(cluster, MODELS, model);
  await create(cluster, INFERENCE_SERVICES, service);
}

async function create<T extends KubeObject>(
  { client, namespace }: Cluster,
  kind: Kind<T>,
  object: T,
  options: { readonly isDryRun?: boolean } = {},
): Promise<void> {
  const result = await client.create(kind, object, options);
  if (result.ok) return;
  const { name } = object.metadata;
  if (result.error.kind === "alreadyExists")
    throw new MetalbridgeError(
      "ServiceExists",
      `there is a ${kind.kind} ${name} in namespace ${namespace}`,
      remedyOf("ServiceExists", { service: `${name} -n ${namespace}` }),
    );
  if (result.error.kind === "invalid")
    throw new MetalbridgeError(
      "ManifestInvalid",
      `the API server refuses ${kind.kind} ${name}: ${result.error.message}`,
    );
  throw explainAttempt({ verb: "create", kind, name, namespace }, result.error);
}
