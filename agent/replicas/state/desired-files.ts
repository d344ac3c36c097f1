/** desired/UID.json: the last known replica, so that supervision continues through an outage of the API server. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type InferenceReplica, inferenceReplicaSchema } from "../../../src/api/inference-replica.ts";
import { writeFileAtomic } from "../../../src/util/atomic-file.ts";
import type { Log } from "../../../src/util/ports.ts";

export interface DesiredFiles {
  readonly readAll: () => ReadonlyMap<string, InferenceReplica>;
  /** Creates the folder and removes files that a crash left half written. Call it before the first write, and only while no other agent writes. */
  readonly open: () => void;
  /** Writes in the background; a newer replica replaces a pending one. Never throws. */
  readonly save: (uid: string, replica: InferenceReplica) => void;
  readonly remove: (uid: string) => void;
  /** Resolves once everything saved so far is on disk. */
  readonly settled: () => Promise<void>;
}

/** Reads and writes nothing yet. */
export function openDesiredFiles(stateDir: string, log: Log): DesiredFiles {
  const dir = join(stateDir, "desired");
  const pending = new Map<string, InferenceReplica | "remove">();
  const saved = new Map<string, string>();
  let writing: Promise<void> | undefined;

  const drain = async (): Promise<void> => {
    for (const [uid, change] of pending) {
      pending.delete(uid);
      const path = join(dir, `${uid}.json`);
      try {
        if (change === "remove") rmSync(path, { force: true });
        else await writeFileAtomic(path, JSON.stringify(change));
      } catch (err) {
        saved.delete(uid);
        const { namespace, name } = change === "remove" ? {} : change.metadata;
        log.warn({ err, uid, namespace, name }, "cannot save the replica to disk");
      }
    }
  };
  const flush = (): void => {
    writing ??= drain().finally(() => {
      writing = undefined;
      if (pending.size > 0) flush();
    });
  };
  return {
    readAll: () => readAll(dir, log),
    open: () => {
      mkdirSync(dir, { recursive: true, mode: 0o700 });
      for (const name of readdirSync(dir))
        if (!name.endsWith(".json")) rmSync(join(dir, name), { force: true });
    },
    save: (uid, replica) => {
      const stored = withoutStatus(replica);
      const text = fingerprint(stored);
      if (saved.get(uid) === text) return;
      saved.set(uid, text);
      pending.set(uid, stored);
      flush();
    },
    remove: (uid) => {
      saved.delete(uid);
      pending.set(uid, "remove");
      flush();
    },
    settled: async () => {
      while (writing !== undefined) await writing;
    },
  };
}

function readAll(dir: string, log: Log): ReadonlyMap<string, InferenceReplica> {
  const found = new Map<string, InferenceReplica>();
  if (!existsSync(dir)) return found;
  for (const name of readdirSync(dir)) {
    if (!name.endsWith(".json")) continue;
    try {
      const replica = inferenceReplicaSchema.parse(JSON.parse(readFileSync(join(dir, name), "utf8")));
      found.set(name.slice(0, -".json".length), replica as InferenceReplica);
    } catch (err) {
      log.warn({ err, file: name }, "cannot read a saved replica; waiting for the API server");
    }
  }
  return found;
}

/** Omits the status, which the agent writes itself and which changes often, and the managed fields, which are long and not used. */
function withoutStatus(replica: InferenceReplica): InferenceReplica {
  const { status: _status, ...rest } = replica;
  const { managedFields: _managed, ...metadata } = replica.metadata;
  return { ...rest, metadata };
}

/** Ignores the resource version: it changes with every write of the status, which is no reason to write the file again. */
function fingerprint(replica: InferenceReplica): string {
  const { resourceVersion: _, ...metadata } = replica.metadata;
  return JSON.stringify({ ...replica, metadata });
}
