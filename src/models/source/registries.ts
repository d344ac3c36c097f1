/** Where the registry of an oci:// or ollama:// source is. Pure. */
import { MetalbridgeError } from "../../api/errors.ts";
import type { ModelSource } from "./source.ts";

const PLAIN_HOST = /^(localhost|127(\.\d{1,3}){3})(:\d+)?$/;
/** What docker.io stands for. */
export const DOCKER_HUB = "registry-1.docker.io";
export const OLLAMA_REGISTRY = "https://registry.ollama.ai";

/** Registries speak TLS, except those on this machine's own loopback. */
export function registryAt(host: string): string {
  const name = host === "docker.io" ? DOCKER_HUB : host;
  return `${PLAIN_HOST.test(name) ? "http" : "https"}://${name}`;
}

export interface OllamaModel {
  /** Scheme and host of its registry, without a path. */
  readonly registry: string;
  /** Namespace and model. */
  readonly path: string;
  readonly tag: string;
}

/** `model`, `namespace/model` or `host/namespace/model`; `registry` is where names without a host are. Throws SourceInvalid. */
export function ollamaModel(
  { name, tag }: Extract<ModelSource, { kind: "ollama" }>,
  registry: string = OLLAMA_REGISTRY,
): OllamaModel {
  const parts = name.split("/");
  const [model = "", namespace = "library", host] = parts.toReversed();
  if (parts.length > 3 || parts.includes(""))
    throw new MetalbridgeError(
      "SourceInvalid",
      `"ollama://${name}:${tag}" is no name that Ollama knows: it has ${parts.length} parts`,
      { summary: "write it as ollama://[namespace/]model:tag" },
    );
  const at = host === undefined ? new URL(registry).origin : registryAt(host);
  return { registry: at, path: `${namespace}/${model}`, tag };
}
