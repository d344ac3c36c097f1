/** A key of the gateway: its scope, its limits, and its hashes. */
import { z } from "zod";
import { MetalbridgeError } from "../api/errors.ts";
import { prioritySchema, sha256Schema, shortText, timestamp } from "../api/fields/shared.ts";
import { isoSeconds } from "../util/iso-seconds.ts";
import { compareText } from "../util/text.ts";

/** Maximum number of entries in each list of a scope. */
const SCOPE_MAX = 256;
/** Weights of keys in the fair queue. */
export const WEIGHT_MAX = 1_000;
/** During a rotation, two keys are valid. */
const HASHES_MAX = 2;
/** Larger counts would lose precision. */
const COUNT_MAX = 1_000_000_000_000;

const DNS_LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const SERVICE = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?\/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/;

const count = () => z.int().min(1).max(COUNT_MAX).optional();

export const keyLimitsSchema = z.strictObject({
  concurrentRequests: count(),
  requestsPerMinute: count(),
  tokensPerMinute: count(),
  tokensPerDay: count(),
  tokensPerMonth: count(),
});

export const keyScopeSchema = z.strictObject({
  namespaces: z
    .array(z.string().max(63).regex(DNS_LABEL, "must be the name of a namespace"))
    .max(SCOPE_MAX)
    .optional(),
  services: z.array(z.string().max(317).regex(SERVICE, "must be namespace/name")).max(SCOPE_MAX).optional(),
  models: z.array(shortText(253, "Model name.").min(1)).max(SCOPE_MAX).optional(),
});

const hashSchema = z.strictObject({
  sha256: sha256Schema,
  /** First characters of the key, so that people can recognize it. */
  hint: shortText(16, "First characters of the key.").optional(),
  createdAt: timestamp("Creation time."),
  expiresAt: timestamp("Expiry; absent means none.").optional(),
});

/** The content of `key.json` in the Secret of a key. */
export const gatewayKeySchema = z.strictObject({
  hashes: z.array(hashSchema).min(1).max(HASHES_MAX),
  owner: shortText(253, "Person or team."),
  scope: z
    .union([z.literal("all"), keyScopeSchema], {
      error: 'must be "all", or have lists of namespaces, services (namespace/name) or models',
    })
    .refine((scope) => scope === "all" || Object.values(scope).some((list) => (list ?? []).length > 0), {
      error: 'is empty: list namespaces, services or models, or set it to "all"',
    }),
  limits: keyLimitsSchema.default({}),
  priority: prioritySchema.default("normal"),
  weight: z.int().min(1).max(WEIGHT_MAX).default(1),
  expiresAt: timestamp("Expiry; absent means none.").optional(),
  disabledAt: timestamp("Time at which the key was disabled; absent if it is enabled.").optional(),
  revokedAt: timestamp("Time of the revocation.").optional(),
});

export type GatewayKey = z.output<typeof gatewayKeySchema>;
export type KeyHash = GatewayKey["hashes"][number];
/** Absent limits do not limit. */
export type KeyLimits = z.output<typeof keyLimitsSchema>;
export type KeyScope = GatewayKey["scope"];

/** A service, with all names under which clients may request it. */
export interface UsableService {
  readonly namespace: string;
  readonly name: string;
  /** Served names and aliases. */
  readonly names: readonly string[];
}

/** True if the scope lists the namespace, the service, or one of its names. */
export function isInScope(scope: KeyScope, { namespace, name, names }: UsableService): boolean {
  if (scope === "all") return true;
  const { namespaces = [], services = [], models = [] } = scope;
  return (
    namespaces.includes(namespace) ||
    services.includes(`${namespace}/${name}`) ||
    names.some((served) => models.includes(served))
  );
}

export type KeyState = "active" | "expired" | "disabled" | "revoked";

/** A key as lists show it. */
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

/** Body of a console request that changes a key; it may also have `isDisabled`, or `isRevoked: true`, which is final. */
export interface KeyFields {
  readonly owner?: string;
  readonly scope?: KeyScope;
  readonly limits?: KeyLimits;
  readonly priority?: GatewayKey["priority"];
  readonly weight?: number;
  /** From now on. */
  readonly validForSeconds?: number | undefined;
}

export interface KeyList {
  readonly namespace: string;
  readonly keys: readonly KeyEntry[];
}

export interface CreatedKey {
  /** Shown once: the cluster stores its hash. */
  readonly key: string;
}

/** State of one hash of the key, or of the whole key if no hash is given. */
export function keyState(key: GatewayKey, nowMs: number, hash?: KeyHash): KeyState {
  if (key.revokedAt !== undefined) return "revoked";
  const hasExpired = (at: string | undefined) => at !== undefined && Date.parse(at) <= nowMs;
  if (hasExpired(key.expiresAt)) return "expired";
  const hashes = hash === undefined ? key.hashes : [hash];
  if (hashes.every(({ expiresAt }) => hasExpired(expiresAt))) return "expired";
  return key.disabledAt === undefined ? "active" : "disabled";
}

/** Disables or enables the key. Returns the same object if nothing changes. Throws GatewayKeyInvalid for a revoked key. */
export function switchKey(
  key: GatewayKey,
  {
    name,
    isDisabled,
    nowMs,
  }: { readonly name: string; readonly isDisabled: boolean; readonly nowMs: number },
): GatewayKey {
  if (key.revokedAt !== undefined)
    throw new MetalbridgeError(
      "GatewayKeyInvalid",
      `key ${name} was revoked at ${key.revokedAt}, which is final`,
      { summary: "create a new key", command: "metalbridge key create <name>" },
    );
  if (isDisabled === (key.disabledAt !== undefined)) return key;
  return { ...key, disabledAt: isDisabled ? isoSeconds(nowMs) : undefined };
}

/** Adds a new hash. The previous hash stays valid until `overlapUntil`, or until its own earlier expiry. */
export function rotateKey(key: GatewayKey, added: KeyHash, overlapUntil: string): GatewayKey {
  const newestFirst = [...key.hashes].sort((a, b) => compareText(b.createdAt, a.createdAt));
  const kept = newestFirst.slice(0, HASHES_MAX - 1).map((hash) => ({
    ...hash,
    expiresAt:
      hash.expiresAt !== undefined && Date.parse(hash.expiresAt) < Date.parse(overlapUntil)
        ? hash.expiresAt
        : overlapUntil,
  }));
  return { ...key, hashes: [added, ...kept] };
}

/** Effects of the first and of the last key, in the same words for the CLI and the console. */
export function firstKeyWords(name: string, namespace: string): string {
  return `${name} is the first key in namespace ${namespace}: from then on the gateway refuses every request without a key, and listens on its configured address instead of loopback only.`;
}

export function lastKeyWords(name: string, namespace: string): string {
  return `${name} is the last key in namespace ${namespace}: without it the gateway listens on loopback only, and requires no key there.`;
}
