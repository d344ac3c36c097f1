/** The usage records of some months, from all namespaces, or from that of the gateway for readers with fewer rights. */
import { readUsageRecord, type UsageConfigMap, type UsageRecord } from "../../../../src/gateway/usage.ts";
import { type ApiObject, listObjects } from "../../api/kube.ts";
import { ConsoleError } from "../../api/request.ts";

const LABEL_MONTH = "metalbridge.dev/usage-month";
const GATEWAY_NAMESPACE = "metalbridge-system";

export async function usageRecords(
  months: readonly string[],
  signal: AbortSignal,
): Promise<readonly UsageRecord[]> {
  const query = { labelSelector: `${LABEL_MONTH} in (${months.join(",")})`, limit: "2000" };
  const list = (namespace?: string) =>
    listObjects<ApiObject & UsageConfigMap>(
      { resource: "configmaps", ...(namespace !== undefined && { namespace }) },
      query,
      signal,
    );
  const objects = await list().catch((error: unknown) => {
    if (error instanceof ConsoleError && error.status === 403) return list(GATEWAY_NAMESPACE);
    throw error;
  });
  return objects.flatMap((object) => readUsageRecord(object) ?? []);
}
