/** Transport of requests to the replicas of a service on hosts. Pure. */
import type { InferenceServiceSpec } from "../api/inference-service/index.ts";

export type Transport = NonNullable<InferenceServiceSpec["endpoint"]["transport"]>;

/** A certificate of the service, or an engine without a gate, needs direct connections. */
export function transportOf(
  { endpoint }: Pick<InferenceServiceSpec, "endpoint">,
  byDefault: Transport,
): Transport {
  const { transport, tls, gate } = endpoint;
  return transport ?? (tls !== undefined || gate === "Never" ? "Direct" : byDefault);
}
