/** host.json: the last known Host spec, so that budgets and addresses apply while the API server is unreachable. */
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type Host, hostSchema } from "../../src/api/host.ts";
import { systemCode, writeFileAtomic } from "../../src/util/atomic-file.ts";
import type { Log } from "../../src/util/ports.ts";

export interface CachedHost {
  /** The last Host that this or an earlier agent of the same host name has read. */
  readonly read: () => Host | undefined;
  /** Writes if the Host has changed; undefined if it was deleted. Never throws. */
  readonly save: (host: Host | undefined) => void;
  /** Resolves once everything saved so far is on disk, so that the next agent may use the folder. */
  readonly settled: () => Promise<void>;
}

export function openCachedHost(stateDir: string, hostName: string, log: Log): CachedHost {
  const path = join(stateDir, "host.json");
  let lastSaved: string | undefined;
  let writing: Promise<unknown> = Promise.resolve();
  const failed = (err: unknown): void => {
    lastSaved = undefined;
    log.warn({ err }, "cannot save the Host to disk");
  };
  return {
    read: () => {
      try {
        const host = hostSchema.parse(JSON.parse(readFileSync(path, "utf8"))) as Host;
        return host.metadata.name === hostName ? host : undefined;
      } catch (err) {
        if (systemCode(err) !== "ENOENT")
          log.warn({ err }, "cannot read the saved Host; waiting for the API server");
        return undefined;
      }
    },
    save: (host) => {
      const text = host === undefined ? "" : JSON.stringify(savedPart(host));
      if (text === lastSaved) return;
      lastSaved = text;
      const write = async (): Promise<void> => {
        if (text === "") rmSync(path, { force: true });
        else await writeFileAtomic(path, text);
      };
      writing = writing.then(write).catch(failed);
    },
    settled: async () => void (await writing),
  };
}

/** Omits the status, which the agent owns, and metadata whose changes do not matter. */
function savedPart({ apiVersion, kind, metadata: { name, uid }, spec }: Host): object {
  return { apiVersion, kind, metadata: { name, uid }, spec };
}
