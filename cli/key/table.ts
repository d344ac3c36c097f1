/** The keys of a gateway as a table. Pure. */
import type { GatewayKey, KeyEntry, KeyLimits } from "../../src/gateway/key.ts";
import { ageOf } from "../program/age.ts";
import { formatTable } from "../program/table.ts";

const LIMIT_WORDS: Readonly<Record<keyof KeyLimits, string>> = {
  concurrentRequests: "concurrent",
  requestsPerMinute: "requests/min",
  tokensPerMinute: "tokens/min",
  tokensPerDay: "tokens/day",
  tokensPerMonth: "tokens/month",
};

export function renderKeyTable(entries: readonly KeyEntry[], nowMs: number): string {
  if (entries.length === 0) return "no keys; to create one: metalbridge key create";
  const titles = [
    "NAME",
    "STATE",
    "KEY",
    "OWNER",
    "MAY USE",
    "LIMITS",
    "PRIORITY",
    "WEIGHT",
    "EXPIRES",
    "AGE",
  ];
  return formatTable(
    titles,
    entries.map((entry) => rowOf(entry, nowMs)),
  );
}

function rowOf(entry: KeyEntry, nowMs: number): readonly string[] {
  const age = ageOf(entry.createdAt, nowMs) ?? "";
  if (entry.state === "invalid")
    return [entry.name, `invalid: ${entry.problem}`, ...new Array<string>(7).fill(""), age];
  const { name, state, keys, owner, scope, limits, priority, weight, expiresAt = "" } = entry;
  const valid = keys.filter((one) => one.state === "active");
  return [
    ...[name, state, valid.map(({ hint = "?" }) => `${hint}…`).join(" ")],
    ...[owner, scopeText(scope), limitsText(limits), priority, String(weight), expiresAt, age],
  ];
}

function scopeText(scope: GatewayKey["scope"]): string {
  if (scope === "all") return "all";
  const { namespaces = [], services = [], models = [] } = scope;
  return [...namespaces.map((name) => `${name}/*`), ...services, ...models].join(" ");
}

function limitsText(limits: KeyLimits): string {
  const names = Object.keys(LIMIT_WORDS) as (keyof KeyLimits)[];
  return names
    .flatMap((name) => (limits[name] === undefined ? [] : [`${limits[name]} ${LIMIT_WORDS[name]}`]))
    .join(", ");
}
