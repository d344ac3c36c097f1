/** What engines that share a daemon have in common: names of servers and models by their settings, and the context. Pure. */
import type { EngineSettings } from "../../api/engine-settings.ts";
import { hash } from "../../util/hash.ts";

const OWN_PREFIX = "metalbridge-";
const CONTEXT_PER_SLOT = 4096;

/** A server's name: services with the same settings share one. */
export function serverNameOf(runtime: string, settings: unknown): string {
  return `${runtime}-${shortHash(settings)}`;
}

/** A model's name in its daemon, the same for the same weights and settings. */
export function ownModelName(identity: unknown): string {
  return `${OWN_PREFIX}${shortHash(identity)}`;
}

/** Whether the agent created it, and so may delete it. */
export function isOwnModel(name: string): boolean {
  return name.startsWith(OWN_PREFIX);
}

/** Tokens that one request may use. */
export function contextOfRequest(
  { contextSize, parallelSlots = 1 }: Pick<EngineSettings, "contextSize" | "parallelSlots">,
  trained: { readonly contextLength?: number | undefined } = {},
): number {
  if (contextSize !== undefined) return Math.floor(contextSize / parallelSlots);
  return Math.min(CONTEXT_PER_SLOT, trained.contextLength || CONTEXT_PER_SLOT);
}

function shortHash(value: unknown): string {
  return hash(JSON.stringify(value), 16);
}
