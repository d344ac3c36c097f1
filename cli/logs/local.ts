/** Replicas whose engines this machine's agent has, read from its state folder: no API server is needed for that. */
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";

export interface LocalReplica {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly service: string;
  /** The engine's folder, with its log; it may not exist yet. */
  readonly dir: string;
  readonly createdAt: string;
}

export type LocalReplicas =
  | { readonly at: "read"; readonly replicas: readonly LocalReplica[] }
  | { readonly at: "absent" }
  /** Not for this user. */
  | { readonly at: "closed"; readonly because: string };

/** Reads replicas from `desired/`, and those being stopped from `engines/`. */
export async function readLocalReplicas(stateDir: string): Promise<LocalReplicas> {
  try {
    const desired = await recordsIn(
      path.join(stateDir, "desired"),
      (name) => /^(.+)\.json$/.exec(name)?.[1],
      "",
    );
    const engines = await recordsIn(path.join(stateDir, "engines"), (name) => name, "engine.json");
    if (desired === undefined && engines === undefined) return { at: "absent" };
    const byUid = new Map<string, LocalReplica>();
    for (const [uid, record] of [...(engines ?? []), ...(desired ?? [])]) {
      const replica = replicaOf(stateDir, uid, record);
      if (replica !== undefined) byUid.set(uid, replica);
    }
    return { at: "read", replicas: [...byUid.values()] };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "EACCES" || code === "EPERM") return { at: "closed", because: message };
    throw error;
  }
}

type Records = readonly (readonly [uid: string, record: unknown])[];

/** Undefined where the folder does not exist; what cannot be understood is passed over. */
async function recordsIn(
  folder: string,
  uidOf: (name: string) => string | undefined,
  inside: string,
): Promise<Records | undefined> {
  const names = await readdir(folder).catch(absent);
  if (names === undefined) return undefined;
  const records = await Promise.all(
    names.map(async (name) => {
      const uid = uidOf(name);
      const text =
        uid === undefined ? undefined : await readFile(path.join(folder, name, inside), "utf8").catch(absent);
      return text === undefined || uid === undefined ? [] : [[uid, parse(text)] as const];
    }),
  );
  return records.flat();
}

/** A desired replica, or an engine's record. */
function replicaOf(stateDir: string, uid: string, record: unknown): LocalReplica | undefined {
  if (!isFields(record)) return undefined;
  const metadata = isFields(record.metadata) ? record.metadata : record;
  const template = isFields(record.spec) && isFields(record.spec.template) ? record.spec.template : record;
  const { name, namespace } = metadata;
  if (typeof name !== "string" || typeof namespace !== "string") return undefined;
  const service = template.serviceName ?? template.service;
  return {
    ...{ uid, name, namespace, dir: path.join(stateDir, "engines", uid) },
    service: typeof service === "string" ? service : "",
    createdAt: typeof metadata.creationTimestamp === "string" ? metadata.creationTimestamp : "",
  };
}

function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined;
  throw error;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isFields(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}
