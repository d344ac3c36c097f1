/** Which llama-server the agent, `join`, `doctor` and `selftest` try, in order, before those on PATH. */
import { existsSync } from "node:fs";
import { basename, dirname } from "node:path";
import type { AgentConfig } from "../../agent/config/schema.ts";
import { enginePlaces } from "../../launchd/engines/store.ts";
import { placesBelow } from "../../launchd/layout/layout.ts";
import { readPartsConfig } from "../../local/control-plane/config.ts";
import { findLlamaServer } from "../../local/control-plane/engine-programs.ts";
import { packageRoot } from "../../local/package-root.ts";

export interface EnginePlaces {
  /** Absent: that of this process. */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /** Prefix of an installation, whose engines are preferred. */
  readonly prefix?: string | undefined;
}

/**
 * Only the configured programs, if there are any. Otherwise the engine of `metalbridge engine install`, even if it is missing:
 * it may be installed while the agent runs. Then PATH, and what `npm run setup` cached.
 */
export function llamaServerPaths(
  { llamaServer }: Pick<AgentConfig, "llamaServer">,
  { env, prefix }: EnginePlaces,
): readonly string[] {
  if (llamaServer.length > 0) return llamaServer;
  const parts = readPartsConfig(env);
  const installed = prefix === undefined ? [] : [enginePlaces(prefix).program];
  const found = findLlamaServer(parts);
  return [...(parts.llamaServer === undefined ? installed : []), ...(found === undefined ? [] : [found])];
}

/** Prefix of the installation that this program belongs to; undefined for a checkout or an unpacked release. */
export function ownPrefix(): string | undefined {
  const root = packageRoot();
  const prefix = dirname(dirname(root));
  const { versions, choices } = placesBelow(prefix);
  return basename(dirname(root)) === basename(versions) && existsSync(choices) ? prefix : undefined;
}
