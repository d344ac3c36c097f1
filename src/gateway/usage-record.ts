/** The usage of one gateway on one day, as a ConfigMap with comma-separated values. */
import { LABEL_USAGE, LABEL_USAGE_DAY, LABEL_USAGE_MONTH } from "../api/group.ts";
import type { ConfigMap } from "../kube/objects.ts";
import { hash } from "../util/hash.ts";
import { renderUsageCsv, USAGE_FIELD, type UsageRow } from "./usage.ts";

/** Maximum length of an object's name, without the rest of a record's name. */
const GATEWAY_NAME_MAX = 200;

/** A day in UTC, as in 2026-11-27. */
export function dayOf(nowMs: number): string {
  return new Date(nowMs).toISOString().slice(0, 10);
}

/** The month of a day, as in 2026-11. */
export function monthOf(day: string): string {
  return day.slice(0, 7);
}

/** The gateway's name may be that of a machine, such as `Adas-Mac.local`. */
export function recordName(gateway: string, day: string): string {
  const name = gateway
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replace(/-$/, "");
  return `gateway-usage-${day}-${name === "" || name.length > GATEWAY_NAME_MAX ? hash(gateway) : name}`;
}

export function renderUsageRecord(
  { namespace, gateway, day }: { readonly namespace: string; readonly gateway: string; readonly day: string },
  rows: Iterable<UsageRow>,
): ConfigMap {
  const labels = { [LABEL_USAGE]: "true", [LABEL_USAGE_DAY]: day, [LABEL_USAGE_MONTH]: monthOf(day) };
  return {
    metadata: { namespace, name: recordName(gateway, day), labels },
    data: { [USAGE_FIELD]: renderUsageCsv(rows) },
  };
}
