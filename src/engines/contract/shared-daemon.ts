/** Common parts of engines that share a daemon: names of servers and models, and the context of a request. Pure. */
import { DEFAULT_CONTEXT_PER_SLOT, type EngineSettings } from "../../api/engine-settings.ts";
import { hash } from "../../util/hash.ts";

const OWN_PREFIX = "metalbridge-";

/** Name of a server, which services with the same settings share. */
export function serverNameOf(runtime: string, settings: unknown): string {
  return `${runtime}-${shortHash(settings)}`;
}

/** Name of a model in its daemon, which is the same for the same weights and settings. */
export function ownModelName(identity: unknown): string {
  return `${OWN_PREFIX}${shortHash(identity)}`;
}

/** True if the agent created the model, and so may delete it. */
export function isOwnModel(name: string): boolean {
  return name.startsWith(OWN_PREFIX);
}

/** Maximum number of tokens of a request. */
export function contextOfRequest(
  { contextSize, parallelSlots = 1 }: Pick<EngineSettings, "contextSize" | "parallelSlots">,
  trained: { readonly contextLength?: number | undefined } = {},
): number {
  if (contextSize !== undefined) return Math.floor(contextSize / parallelSlots);
  return Math.min(DEFAULT_CONTEXT_PER_SLOT, trained.contextLength || DEFAULT_CONTEXT_PER_SLOT);
}

function shortHash(value: unknown): string {
  return hash(JSON.stringify(value), 16);
}
