/** Reads models of the Ollama library for other engines: the GGUF and the projector of a name and tag. */
import { type OllamaSource, ollamaModel } from "../../models/source/kinds/ollama.ts";
import { isBelowUrl } from "../failure.ts";
import { filesOfOllama } from "../oci/manifest.ts";
import { blobUrl, listArtifact, repositoryAuthority } from "../oci/registry.ts";
import type { Access, SourceReader } from "../remote-source.ts";

export function openOllama(
  source: OllamaSource,
  { ollamaRegistry, credentials, revision, ...access }: Access,
): SourceReader {
  const { registry: base, path: name, tag } = ollamaModel(source, ollamaRegistry);
  const shown = `ollama://${source.name}:${tag}`;
  // The operator's own registry may have any address except a link-local one.
  const isOperators = ollamaRegistry !== undefined && new URL(ollamaRegistry).origin === base;
  const rules = isOperators ? { ...access.rules, trustedHost: new URL(base).host } : access.rules;
  const authority = repositoryAuthority({ base, name, rules }, credentials);
  const model = { base, name, shown, rules, authority };
  return {
    shown,
    rules,
    ...authority,
    hasCredentials: credentials !== undefined,
    holds: isBelowUrl(`${base}/v2/${name}/`),
    list: (signal) => listArtifact(model, revision ?? tag, filesOfOllama, signal),
    locate: (file, list) => blobUrl(model, file, list),
  };
}
