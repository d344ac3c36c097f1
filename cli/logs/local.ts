/** Reads the replicas of this machine from the state folder of its agent, without the API server. */
import { readdirSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import { undefinedIfMissing } from "../../agent/remote/log-reader.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { readPlainFile } from "../../src/util/plain-file.ts";
import { compareText } from "../../src/util/text.ts";

export interface LocalReplica {
  readonly namespace: string;
  readonly name: string;
  readonly service: string;
  /** The folder of the engine with its log, which may not exist yet. */
  readonly dir: string;
}

const MAX_BYTES = 4 << 20;

const desiredFile = z.object({
  metadata: z.object({ namespace: z.string(), name: z.string(), creationTimestamp: z.string().default("") }),
  spec: z.object({ template: z.object({ serviceName: z.string() }) }),
});
const engineFile = z.object({ namespace: z.string(), name: z.string(), service: z.string() });

/**
 * Replicas from `desired/`, and replicas that are being stopped from `engines/`. If two replicas have the same name, the newer
 * one is returned. Invalid files are skipped. Throws if a file may not be read.
 */
export function readLocalReplicas(stateDir: string): readonly LocalReplica[] {
  const enginesDir = path.join(stateDir, "engines");
  const desiredDir = path.join(stateDir, "desired");
  const stopping = listNames(enginesDir).flatMap((uid): LocalReplica[] => {
    const dir = path.join(enginesDir, uid);
    const { data } = engineFile.safeParse(readJson(path.join(dir, "engine.json")));
    return data === undefined ? [] : [{ ...data, dir }];
  });
  const desired = listNames(desiredDir).flatMap((file) => {
    const uid = /^(.+)\.json$/.exec(file)?.[1];
    if (uid === undefined) return [];
    const { data } = desiredFile.safeParse(readJson(path.join(desiredDir, file)));
    return data === undefined ? [] : [{ ...data, dir: path.join(enginesDir, uid) }];
  });
  const byAge = desired.sort((a, b) =>
    compareText(a.metadata.creationTimestamp, b.metadata.creationTimestamp),
  );
  const known = byAge.map(({ metadata: { namespace, name }, spec, dir }) => ({
    namespace,
    name,
    dir,
    service: spec.template.serviceName,
  }));
  return [...new Map([...stopping, ...known].map((one) => [`${one.namespace}/${one.name}`, one])).values()];
}

/** Matches the name of a replica first, then of a service. Undefined if neither matches. Throws NameAmbiguous. */
export function chooseLocal(
  replicas: readonly LocalReplica[],
  name: string,
  namespace: string | undefined,
  verb = "logs",
): LocalReplica | undefined {
  const visible = replicas.filter((one) => namespace === undefined || one.namespace === namespace);
  const named = visible.filter((one) => one.name === name);
  const matches = named.length > 0 ? named : visible.filter((one) => one.service === name);
  const [first] = matches;
  if (first === undefined || matches.length === 1) return first;
  const list = matches.map((one) => `${one.namespace}/${one.name}`);
  throw ambiguousName(`${name} matches ${list.sort().join(", ")}`, first, verb);
}

export function ambiguousName(
  message: string,
  first: { readonly name: string; readonly namespace: string },
  verb: string,
) {
  return new MetalbridgeError("NameAmbiguous", message, {
    summary: "name one of them, with its namespace",
    command: `metalbridge ${verb} ${first.name} -n ${first.namespace}`,
  });
}

function listNames(folder: string): readonly string[] {
  return undefinedIfMissing(() => readdirSync(folder)) ?? [];
}

/** Undefined if the file is missing, incomplete or not a regular file. */
function readJson(file: string): unknown {
  try {
    return JSON.parse(readPlainFile(file, { maxBytes: MAX_BYTES }));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EACCES" || code === "EPERM") throw error;
    return undefined;
  }
}
