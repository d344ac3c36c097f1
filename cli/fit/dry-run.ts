/** Dry run of a service: the API server applies defaults, validation and admission, and stores nothing. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { ACCESS_REVIEWS } from "../../src/kube/kinds.ts";
import type { AccessReview } from "../../src/kube/objects.ts";
import type { ApiResult } from "../../src/kube/types.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { explainAttempt } from "../cluster/failure.ts";

export type DryRun =
  | { readonly at: "accepted"; readonly service: InferenceService }
  /** The credential may read but not write. */
  | { readonly at: "notChecked"; readonly why: string };

interface Attempt {
  /** The verb for RBAC. */
  readonly verb: "create" | "update";
  readonly result: ApiResult<InferenceService>;
}

/** Throws `ManifestInvalid` with the message of the API server. */
export async function dryRunService(
  cluster: Cluster,
  service: InferenceService,
  file: string,
): Promise<DryRun> {
  const { verb, result } = await attempt(cluster, service);
  if (result.ok) return { at: "accepted", service: result.value };
  const { name, namespace = "default" } = service.metadata;
  const { kind, message } = result.error;
  if (kind === "forbidden" && !(await mayWrite(cluster, verb, { name, namespace })))
    return { at: "notChecked", why: message };
  // Policies, webhooks and quotas also answer 403 to users who may write.
  if (kind === "invalid" || kind === "notFound" || kind === "forbidden")
    throw new MetalbridgeError("ManifestInvalid", `${file}: the API server refuses it: ${message}`);
  throw explainAttempt({ verb: "patch", kind: INFERENCE_SERVICES, name, namespace }, result.error);
}

/** Creates or updates as an apply would, because rights and policies differ between the two. */
async function attempt({ client }: Cluster, service: InferenceService): Promise<Attempt> {
  const { name, namespace = "default" } = service.metadata;
  const options = { isDryRun: true };
  const current = await client.get(INFERENCE_SERVICES, { name, namespace });
  const { resourceVersion } = current.ok ? current.value.metadata : {};
  if (resourceVersion === undefined)
    return { verb: "create", result: await client.create(INFERENCE_SERVICES, service, options) };
  const metadata = { ...service.metadata, resourceVersion };
  const changed = { ...service, metadata };
  return { verb: "update", result: await client.update(INFERENCE_SERVICES, changed, options) };
}

/** Any user may create an access review. Without an answer, the refusal counts as missing rights. */
async function mayWrite(
  { client }: Cluster,
  verb: Attempt["verb"],
  { name, namespace }: { readonly name: string; readonly namespace: string },
): Promise<boolean> {
  const { group, plural: resource } = INFERENCE_SERVICES;
  const review: AccessReview = {
    metadata: { name: "" },
    spec: { resourceAttributes: { group, resource, verb, namespace, name } },
  };
  const answer = await client.create(ACCESS_REVIEWS, review);
  return answer.ok && answer.value.status?.allowed === true;
}
