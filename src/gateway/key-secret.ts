/** Secrets that hold keys of the gateway, and the format of keys. An invalid Secret results in a problem, never in access. */
import type { z } from "zod";
import { LABEL_GATEWAY_KEY } from "../api/group.ts";
import type { Secret } from "../kube/objects.ts";
import { sha256Hex } from "../util/hash.ts";
import { isoSeconds } from "../util/iso-seconds.ts";
import { parseJson } from "../util/parse-json.ts";
import { compareText } from "../util/text.ts";
import { type GatewayKey, gatewayKeySchema, type KeyEntry, type KeyHash, keyState } from "./key.ts";

/** Type of the Secrets, for information only; other types work, too. */
const KEY_SECRET_TYPE = "metalbridge.dev/gateway-key";
/** The key of the Secret's data. */
export const KEY_FIELD = "key.json";
/** Larger content is not parsed. */
const FIELD_MAX = 256 * 1024;

/** Prefix by which scanners for leaked credentials can find keys. */
const KEY_PREFIX = "mbk_";
/** Length of the random part of a key. */
export const KEY_BYTES = 32;
const KEY_PATTERN = /^mbk_[A-Za-z0-9_-]{43}$/;
const HINT_LENGTH = KEY_PREFIX.length + 4;

export interface NewKey {
  /** The key itself, which is stored nowhere. */
  readonly text: string;
  readonly hash: KeyHash;
}

export type ReadKey =
  | { readonly at: "valid"; readonly id: string; readonly key: GatewayKey }
  | { readonly at: "invalid"; readonly id: string; readonly problem: string };

/** The id of a key is the name of its Secret. */
export function readKeySecret({ metadata, data = {} }: Secret): ReadKey {
  const id = metadata.name;
  const invalid = (problem: string): ReadKey => ({ at: "invalid", id, problem });
  const encoded = data[KEY_FIELD];
  if (encoded === undefined) return invalid(`the Secret has no ${KEY_FIELD}`);
  if (encoded.length > FIELD_MAX) return invalid(`${KEY_FIELD} is longer than ${FIELD_MAX} characters`);
  const content = parseJson(decodeText(encoded));
  if (content === undefined) return invalid(`${KEY_FIELD} is not JSON`);
  const parsed = gatewayKeySchema.safeParse(content);
  return parsed.success
    ? { at: "valid", id, key: parsed.data }
    : invalid(`${KEY_FIELD}: ${firstProblem(parsed.error)}`);
}

export function keySecret(namespace: string, id: string, key: GatewayKey): Secret {
  return {
    metadata: { namespace, name: id, labels: { [LABEL_GATEWAY_KEY]: "true" } },
    type: KEY_SECRET_TYPE,
    data: { [KEY_FIELD]: encodeKey(key) },
  };
}

/** The value of `key.json` in the data of a Secret. */
export function encodeKey(key: GatewayKey): string {
  return Buffer.from(`${JSON.stringify(key, undefined, 2)}\n`).toString("base64");
}

/** Renders a key from 32 random bytes. */
export function keyText(random: Uint8Array): string {
  if (random.length !== KEY_BYTES) throw new Error(`a key needs ${KEY_BYTES} random bytes`);
  return `${KEY_PREFIX}${Buffer.from(random).toString("base64url")}`;
}

/** A key from 32 random bytes, and the hash that the cluster stores. */
export function newKey(random: Uint8Array, nowMs: number): NewKey {
  const text = keyText(random);
  return { text, hash: { sha256: hashKey(text), hint: keyHint(text), createdAt: isoSeconds(nowMs) } };
}

/** False for a credential that cannot be a key, such as a Kubernetes token. */
export function isKeyText(text: string): boolean {
  return KEY_PATTERN.test(text);
}

/**
 * A fast hash is enough: a key has 256 random bits, so it cannot be guessed from its hash. Slow hashes are for passwords, and would
 * cost each request tens of milliseconds.
 */
export function hashKey(text: string): string {
  return sha256Hex(text);
}

/** First characters of a key, for lists. */
export function keyHint(text: string): string {
  return text.slice(0, HINT_LENGTH);
}

/** Keys as lists show them: without their hashes, sorted by name. */
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

function decodeText(base64: string): string {
  return Buffer.from(base64, "base64").toString("utf8");
}

function firstProblem({ issues: [issue] }: z.ZodError): string {
  if (issue === undefined) return "is invalid";
  const path = issue.path.map(String).join(".");
  return path === "" ? issue.message : `${path}: ${issue.message}`;
}
