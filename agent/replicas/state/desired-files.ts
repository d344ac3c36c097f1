/** desired/UID.json: the last seen replica, so that supervision continues through an API server outage. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type InferenceReplica, inferenceReplicaSchema } from "../../../src/api/inference-replica.ts";
import { writeFileAtomic } from "../../../src/util/atomic-file.ts";
import type { Log } from "../../../src/util/ports.ts";

export interface DesiredFiles {
  readonly readAll: () => ReadonlyMap<string, InferenceReplica>;
  /** Makes the folder, and removes what a crash left half written. Before the first write, and not while another agent may be writing. */
  readonly open: () => void;
  /** Writes soon; a newer one replaces one that is still pending. Never throws. */
  readonly save: (uid: string, replica: InferenceReplica) => void;
  readonly remove: (uid: string) => void;
  /** Resolves once everything saved so far is on disk. */
  readonly settled: () => Promise<void>;
}

/** Touches nothing yet. */
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

/** Status is ours and changes often; managed fields are long and mean nothing here. */
function withoutStatus(replica: InferenceReplica): InferenceReplica {
  const { status: _status, ...rest } = replica;
  const { managedFields: _managed, ...metadata } = replica.metadata;
  return { ...rest, metadata };
}

/** The resource version changes with every status; it is no reason to write again. */
function fingerprint(replica: InferenceReplica): string {
  const { resourceVersion: _, ...metadata } = replica.metadata;
  return JSON.stringify({ ...replica, metadata });
}
