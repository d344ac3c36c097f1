/** What the API server makes of a service: its defaults, its rules and admission, and nothing kept. */
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { MetalbridgeError } from "../../src/errors.ts";
import type { ApiResult } from "../../src/kube/types.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { explainAttempt } from "../cluster/failure.ts";

export type DryRun =
  | { readonly at: "accepted"; readonly service: InferenceService }
  /** The credential may look and not write. */
  | { readonly at: "notAsked"; readonly why: string };

/** Throws `ManifestInvalid` with the API server's own words for what it refuses. */
export async function dryRun({ client }: Cluster, service: InferenceService, file: string): Promise<DryRun> {
  const { name, namespace = "default" } = service.metadata;
  const options = { isDryRun: true };
  let result: ApiResult<InferenceService> = await client.create(INFERENCE_SERVICES, service, options);
  if (!result.ok && result.error.kind === "alreadyExists") {
    const current = await client.get(INFERENCE_SERVICES, { name, namespace });
    const { resourceVersion = "" } = current.ok ? current.value.metadata : {};
    const metadata = { ...service.metadata, resourceVersion };
    result = current.ok
      ? await client.update(INFERENCE_SERVICES, { ...service, metadata }, options)
      : current;
  }
  if (result.ok) return { at: "accepted", service: result.value };
  const { kind, message } = result.error;
  if (kind === "forbidden") return { at: "notAsked", why: message };
  if (kind === "invalid" || kind === "notFound")
    throw new MetalbridgeError("ManifestInvalid", `${file}: the API server refuses it: ${message}`);
  throw explainAttempt({ verb: "patch", kind: INFERENCE_SERVICES, name, namespace }, result.error);
}
