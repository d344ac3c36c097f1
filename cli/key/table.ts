/** The keys of a gateway as a table. Pure. */
import { type GatewayKey, type KeyLimits, type KeyState, keyState } from "../../src/gateway/key.ts";
import { readKeySecret } from "../../src/gateway/key-secret.ts";
import type { Secret } from "../../src/kube/objects.ts";
import { compareText } from "../../src/util/text.ts";
import { ageOf } from "../program/age.ts";
import { formatTable } from "../program/table.ts";

export type KeyEntry = {
  readonly name: string;
  readonly createdAt: string | undefined;
} & (
  | { readonly state: "invalid"; readonly problem: string }
  | ({ readonly state: KeyState; readonly keys: readonly KeyLine[] } & Omit<GatewayKey, "hashes">)
);

/** One of the keys that a Secret accepts, without its hash. */
interface KeyLine {
  readonly hint: string | undefined;
  readonly state: KeyState;
  readonly createdAt: string;
  readonly expiresAt: string | undefined;
}

const LIMIT_WORDS: Readonly<Record<keyof KeyLimits, string>> = {
  concurrentRequests: "concurrent",
  requestsPerMinute: "requests/min",
  tokensPerMinute: "tokens/min",
  tokensPerDay: "tokens/day",
  tokensPerMonth: "tokens/month",
};

/** Sorted by name. */
export function keyEntries(secrets: readonly Secret[], nowMs: number): readonly KeyEntry[] {
  return secrets
    .map((secret): KeyEntry => {
      const { name, creationTimestamp: createdAt } = secret.metadata;
      const read = readKeySecret(secret);
      if (read.at === "invalid") return { name, createdAt, state: "invalid", problem: read.problem };
      const { hashes, ...key } = read.key;
      const keys = hashes.map((hash) => ({
        hint: hash.hint,
        state: keyState(read.key, nowMs, hash),
        createdAt: hash.createdAt,
        expiresAt: hash.expiresAt,
      }));
      return { name, createdAt, state: keyState(read.key, nowMs), ...key, keys };
    })
    .sort((a, b) => compareText(a.name, b.name));
}

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
