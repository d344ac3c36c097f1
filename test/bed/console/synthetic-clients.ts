/** What clients of a synthetic farm leave in the cluster: keys of the gateway, and its usage records of a month. */
import { randomBytes } from "node:crypto";
import { NAMESPACE_SYSTEM } from "../../../src/api/group.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { GatewayKey } from "../../../src/gateway/key.ts";
import { KEY_BYTES, keySecret, newKey } from "../../../src/gateway/key-secret.ts";
import type { UsageRow } from "../../../src/gateway/usage.ts";
import { dayOf, renderUsageRecord } from "../../../src/gateway/usage-record.ts";
import { CONFIG_MAPS, SECRETS } from "../../../src/kube/kinds.ts";
import type { KubeClient } from "../../../src/kube/types.ts";
import { must } from "../must.ts";
import { createRandom } from "../random.ts";

const DAYS = 30;
const DAY_MS = 86_400_000;
const KEYS: Readonly<Record<string, Partial<GatewayKey>>> = {
  "ci-reviews": {
    owner: "Platform",
    scope: { namespaces: ["research"] },
    limits: { requestsPerMinute: 120 },
  },
  "ada-notebook": { owner: "Ada", scope: "all", limits: { tokensPerDay: 2_000_000 }, priority: "high" },
  "support-desk": { owner: "Support", scope: { namespaces: ["default"] }, weight: 3 },
  "night-batch": { owner: "Data", scope: "all", priority: "low" },
};

export async function writeClients(client: KubeClient, services: readonly InferenceService[]): Promise<void> {
  const nowMs = Date.now();
  let age = 3;
  for (const [name, fields] of Object.entries(KEYS)) {
    const { hash } = newKey(randomBytes(KEY_BYTES), nowMs - age * DAY_MS);
    const key = {
      hashes: [hash],
      owner: "",
      scope: "all",
      limits: {},
      priority: "normal",
      weight: 1,
    } as const;
    must(
      await client.create(SECRETS, keySecret(NAMESPACE_SYSTEM, name, { ...key, ...fields } as GatewayKey)),
    );
    age += 11;
  }
  for (let back = 0; back < DAYS; back += 1) {
    const day = dayOf(nowMs - back * DAY_MS);
    const record = { namespace: NAMESPACE_SYSTEM, gateway: "gateway-0", day };
    must(await client.create(CONFIG_MAPS, renderUsageRecord(record, usageOf(services, back))));
  }
}

/** Less on every sixth and seventh day. */
function usageOf(services: readonly InferenceService[], back: number): readonly UsageRow[] {
  const random = createRandom(back + 1);
  const keys = Object.keys(KEYS);
  const share = back % 7 < 2 ? 0.3 : 1;
  return services
    .filter(({ status }) => status?.phase === "Ready")
    .map(({ metadata, status }, index) => {
      const requests = Math.round((share * random.integer(200, 4_000)) / (index + 1));
      return {
        key: keys[index % keys.length] ?? "",
        namespace: metadata.namespace ?? "",
        model: metadata.name,
        host: status?.placement?.chosen?.[0]?.host ?? "",
        requests,
        estimatedRequests: 0,
        tokensIn: requests * 640,
        tokensOut: requests * 210,
        tokensCached: requests * 380,
      };
    });
}
