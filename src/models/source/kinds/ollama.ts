/** Models of the Ollama library, or of a registry with its layout. */
import { InvalidSource, type SourceEndpoints, type SourceKind } from "./kind.ts";
import { registryAt } from "./oci.ts";

export interface OllamaSource {
  readonly kind: "ollama";
  /** `model`, `namespace/model` or `host/namespace/model`. */
  readonly name: string;
  readonly tag: string;
}

const NAME = /^([A-Za-z0-9][A-Za-z0-9.-]*:\d{1,5}\/)?[A-Za-z0-9][A-Za-z0-9._/-]*$/;
const TAG = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
const FORM = "ollama://name:tag";
export const OLLAMA_REGISTRY = "https://registry.ollama.ai";

export const OLLAMA = {
  schemes: ["ollama"],
  form: "ollama://name:tag",
  readBy: "hub",
  parse: (rest): OllamaSource => {
    // The host before the first slash may have a port.
    const colon = rest.indexOf(":", rest.lastIndexOf("/") + 1);
    const name = colon < 0 ? rest : rest.slice(0, colon);
    const tag = colon < 0 ? "latest" : rest.slice(colon + 1);
    if (!NAME.test(name) || name.includes("..")) throw new InvalidSource("the name is not valid", FORM);
    if (!TAG.test(tag)) throw new InvalidSource("the tag is not valid", FORM);
    const parts = name.split("/");
    if (parts.length > 3 || parts.includes(""))
      throw new InvalidSource(
        `it is no name that Ollama knows: it has ${parts.length} parts`,
        "ollama://[namespace/]model:tag",
      );
    return { kind: "ollama", name, tag };
  },
  format: (): "ollama" => "ollama",
  shortName: ({ name, tag }: OllamaSource) => `${name.split("/").at(-1)}-${tag}`,
  origin: (source: OllamaSource, { ollamaRegistry }: SourceEndpoints) =>
    ollamaModel(source, ollamaRegistry).registry,
} satisfies SourceKind<OllamaSource>;

export interface OllamaModel {
  /** Scheme and host of its registry, without a path. */
  readonly registry: string;
  /** Namespace and model. */
  readonly path: string;
  readonly tag: string;
}

/** `registry` is where names without a host are. */
export function ollamaModel({ name, tag }: OllamaSource, registry: string = OLLAMA_REGISTRY): OllamaModel {
  const [model = "", namespace = "library", host] = name.split("/").toReversed();
  const at = host === undefined ? new URL(registry).origin : registryAt(host);
  return { registry: at, path: `${namespace}/${model}`, tag };
}
