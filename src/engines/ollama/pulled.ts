/** Models that Ollama itself pulls: those of its own registry, or of the one that the administrator names. Pure. */
import { MetalbridgeError } from "../../api/errors.ts";
import { OLLAMA_REGISTRY, type OllamaSource, ollamaModel } from "../../models/source/kinds/ollama.ts";
import { parseSource } from "../../models/source/parse.ts";

const OWN_REGISTRY = new URL(OLLAMA_REGISTRY).host;

/** The parts of a model's full name. */
export interface PulledModel {
  readonly host: string;
  /** Namespace and model. */
  readonly path: string;
  readonly tag: string;
  readonly isInsecure: boolean;
}

/** False for all other registries, because Ollama follows every redirect and does not know our rules for addresses. */
export function isPulledByOllama(source: string, registry: string = OLLAMA_REGISTRY): boolean {
  const parsed = ollamaSourceOf(source);
  if (parsed === undefined) return false;
  const requested = ollamaModel(parsed, registry).registry;
  return requested === OLLAMA_REGISTRY || requested === new URL(registry).origin;
}

/** Throws `SourceInvalid` for a source that is not ollama://. */
export function pulledModel(text: string, registry: string | undefined): PulledModel {
  const source = ollamaSourceOf(text);
  if (source === undefined) throw new MetalbridgeError("SourceInvalid", `${text} is not an ollama:// source`);
  const { path, tag, registry: url } = ollamaModel(source, registry);
  const { protocol, host } = new URL(url);
  return { host, path, tag, isInsecure: protocol === "http:" };
}

/** Body of the request that pulls the model. */
export function pullRequest({ host, path, tag, isInsecure }: PulledModel): {
  readonly model: string;
  readonly insecure: boolean;
} {
  return { model: `${isInsecure ? "http://" : ""}${host}/${path}:${tag}`, insecure: isInsecure };
}

/** The name of a pulled model in a server. */
export function pulledName(source: string, registry: string | undefined): string {
  const { host, path, tag } = pulledModel(source, registry);
  return host === OWN_REGISTRY ? `${path}:${tag}` : `${host}/${path}:${tag}`;
}

function ollamaSourceOf(text: string): OllamaSource | undefined {
  try {
    const source = parseSource(text);
    return source.kind === "ollama" ? source : undefined;
  } catch {
    return undefined;
  }
}
