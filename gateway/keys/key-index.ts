/** The keys of the gateway by hash, updated with each change of a Secret. Pure. */
import { type GatewayKey, isInScope, type KeyHash, type KeyState, keyState } from "../../src/gateway/key.ts";
import { type ReadKey, readKeySecret } from "../../src/gateway/key-secret.ts";
import type { Secret } from "../../src/kube/objects.ts";
import { compareText } from "../../src/util/text.ts";
import type { Authenticated } from "./authentication.ts";

export interface FoundKey {
  readonly caller: Authenticated;
  readonly state: (nowMs: number) => KeyState;
}

export interface KeyIndex {
  readonly put: (secret: Secret) => ReadKey;
  readonly drop: (id: string) => void;
  /**
   * Finds a key by the hash of the presented text. The lookup need not take constant time: its duration reveals only hashes,
   * which a sender cannot choose and from which no key can be derived.
   */
  readonly find: (sha256: string) => FoundKey | undefined;
  /** Number of Secrets with the label, valid or not. */
  readonly size: () => number;
  /** Problems by id: Secrets that are not valid keys, and keys with the hash of another key. */
  readonly problems: () => ReadonlyMap<string, string>;
}

interface Lookup {
  readonly byHash: ReadonlyMap<string, FoundKey>;
  readonly problems: ReadonlyMap<string, string>;
}

export function createKeyIndex(): KeyIndex {
  const keys = new Map<string, ReadKey>();
  /** Undefined after a change: one build serves all changes up to the next lookup. */
  let lookup: Lookup | undefined;
  const current = (): Lookup => {
    lookup ??= buildLookup([...keys.values()]);
    return lookup;
  };
  return {
    put: (secret) => {
      const read = readKeySecret(secret);
      keys.set(read.id, read);
      lookup = undefined;
      return read;
    },
    drop: (id) => {
      keys.delete(id);
      lookup = undefined;
    },
    find: (sha256) => current().byHash.get(sha256),
    size: () => keys.size,
    problems: () => current().problems,
  };
}

/** If Secrets have the same hash, the one with the first name keeps it, on every gateway. */
function buildLookup(keys: readonly ReadKey[]): Lookup {
  const byHash = new Map<string, FoundKey & { readonly id: string }>();
  const problems = new Map<string, string>();
  for (const read of [...keys].sort((a, b) => compareText(a.id, b.id))) {
    if (read.at === "invalid") {
      problems.set(read.id, read.problem);
      continue;
    }
    const caller = callerOf(read.id, read.key);
    for (const hash of read.key.hashes) {
      const sha256 = hash.sha256.toLowerCase();
      const holder = byHash.get(sha256);
      if (holder === undefined) byHash.set(sha256, { ...found(caller, read.key, hash), id: read.id });
      else if (holder.id !== read.id)
        problems.set(read.id, `has the same hash as the Secret ${holder.id}, which is used instead`);
    }
  }
  return { byHash, problems };
}

function found(caller: Authenticated, key: GatewayKey, hash: KeyHash): FoundKey {
  return { caller, state: (nowMs) => keyState(key, nowMs, hash) };
}

function callerOf(id: string, { owner, scope, priority, weight, limits }: GatewayKey): Authenticated {
  return {
    id,
    owner,
    priority,
    weight,
    limits,
    mayUse: async (service) => (isInScope(scope, service) ? "allowed" : "forbidden"),
  };
}
