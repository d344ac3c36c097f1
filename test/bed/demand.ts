/** What a gateway writes when requests arrive: the demand Lease of a service. */
import { demandLeaseName, demandRenewal, renderDemandLease } from "../../src/api/demand-lease.ts";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { LEASES } from "../../src/kube/kinds.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import { must } from "./must.ts";

/** Renews the Lease, or creates it with the first request. */
export async function demand(
  client: KubeClient,
  namespace: string,
  name: string,
  requestAtMs: number,
): Promise<void> {
  const reported = { gateway: "test", requestAtMs };
  const ref = { namespace, name: demandLeaseName(name) };
  const renew = () => client.jsonPatch(LEASES, ref, demandRenewal(reported));
  if ((await renew()).ok) return;
  const service = must(await client.get(INFERENCE_SERVICES, { namespace, name }));
  const created = await client.create(LEASES, renderDemandLease(service, reported));
  // Another request was first.
  if (!created.ok) must(await renew());
}
