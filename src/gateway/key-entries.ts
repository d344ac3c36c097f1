/** The keys of a gateway as lists show them: without their hashes. */
import type { Secret } from "../kube/objects.ts";
import { compareText } from "../util/text.ts";
import { type KeyEntry, keyState } from "./key.ts";
import { readKeySecret } from "./key-secret.ts";

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
