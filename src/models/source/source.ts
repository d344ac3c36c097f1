/** Reads `spec.source` of a Model: which kind of place, and what in it. */

import { MetalbridgeError } from "../../api/errors.ts";
import type { ModelFormat } from "../../api/fields/shared.ts";
import { truncate } from "../../util/text.ts";

export type ModelSource =
  | { readonly kind: "http"; readonly url: string }
  | { readonly kind: "hf"; readonly repo: string; readonly file?: string; readonly revision: string }
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "pvc"; readonly claim: string; readonly path: string }
  | { readonly kind: "s3" | "oss" | "gs"; readonly bucket: string; readonly key: string }
  | { readonly kind: "modelscope"; readonly repo: string; readonly file?: string; readonly revision: string }
  | { readonly kind: "ollama"; readonly name: string; readonly tag: string }
  | {
      readonly kind: "oci";
      /** Host and port. */
      readonly registry: string;
      readonly repository: string;
      /** A tag, or a digest (`sha256:…`). */
      readonly reference: string;
    };

/** Sources that the client of `src/hub` reads. */
export type RemoteSource = Extract<ModelSource, { kind: (typeof REMOTE)[number] }>;

const REMOTE = ["http", "hf", "modelscope", "s3", "gs", "oss", "oci", "ollama"] as const;

export function isRemote(source: ModelSource): source is RemoteSource {
  return (REMOTE as readonly string[]).includes(source.kind);
}

const MAX_LENGTH = 2048;
/** Blanks, control characters, lone surrogates, and what changes the direction of the text around it. */
const UNWRITABLE = /[\s\p{Cc}\p{Cs}\p{Bidi_Control}\p{Noncharacter_Code_Point}]/u;
const DNS_SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const REPOSITORY_PART = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
const OLLAMA_NAME = /^([A-Za-z0-9][A-Za-z0-9.-]*:\d{1,5}\/)?[A-Za-z0-9][A-Za-z0-9._/-]*$/;
const OLLAMA_TAG = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
const REGISTRY = /^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\d{1,5})?$/;
const OCI_PATH = /^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(\/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$/;
const OCI_TAG = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/;
const BUCKET = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

/** The source as data; throws `SourceInvalid` with what is wrong with it and how it is written. */
export function parseSource(text: string): ModelSource {
  if (text === "") throw invalid(text, "it is empty", "hf://org/repo");
  if (text.length > MAX_LENGTH)
    throw invalid(`${truncate(text, 40)}`, `it is longer than ${MAX_LENGTH} characters`, "hf://org/repo");
  if (UNWRITABLE.test(text))
    throw invalid(text, "it holds a space or a control character", "percent-encode it (%20)");
  if (text.startsWith("/")) return file(text, text);
  const scheme = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//.exec(text);
  if (scheme === null) return bare(text);
  const name = (scheme[1] ?? "").toLowerCase();
  const rest = text.slice(scheme[0].length);
  switch (name) {
    case "http":
    case "https":
      return web(text);
    case "hf":
      return { kind: "hf", ...repository(text, rest, "hf://org/repo[/file.gguf][@revision]", "main") };
    case "modelscope":
      return {
        kind: "modelscope",
        ...repository(text, rest, "modelscope://org/repo[/file][@revision]", "master"),
      };
    case "file":
      return file(text, decoded(text, rest.replace(/^localhost(?=\/)/, "")));
    case "pvc":
      return volume(text, rest);
    case "s3":
    case "oss":
    case "gs":
      return bucket(text, name, rest);
    case "ollama":
      return ollama(text, rest);
    case "oci":
      return oci(text, rest);
    default:
      throw invalid(
        text,
        `${name}:// is not known`,
        "one of hf, https, http, file, pvc, s3, oss, gs, modelscope, oci, ollama",
      );
  }
}

/** A source as it may leave its namespace: signed addresses carry secrets in their query. */
export function publicSource(text: string): string {
  return /^https?:/i.test(text) ? text.replace(/[?#].*$/s, "") : text;
}

/** Whether only the host that runs the model can read its source: a model of the Ollama library is a GGUF where the Model says so. */
export function isReadByHost({ kind }: ModelSource, format: ModelFormat | undefined): boolean {
  return kind === "file" || (kind === "ollama" && format !== "gguf");
}

/** The format that a source has when the Model names none; undefined where only looking at it can tell. */
export function defaultFormat(source: ModelSource): ModelFormat | undefined {
  if (source.kind === "ollama") return "ollama";
  const name = fileNameOf(source)?.toLowerCase();
  if (name?.endsWith(".gguf")) return "gguf";
  if (name?.endsWith(".safetensors")) return "safetensors";
  const isHub = source.kind === "hf" || source.kind === "modelscope";
  if (isHub && /(^|[-_.])mlx([-_.]|$)|^mlx-community\//i.test(source.repo)) return "mlx";
  return undefined;
}

/** The last name of the file that the source names; undefined where it names none. */
export function fileNameOf(source: ModelSource): string | undefined {
  switch (source.kind) {
    case "http":
      return lastName(safelyDecoded(new URL(source.url).pathname));
    case "hf":
    case "modelscope":
      return source.file === undefined ? undefined : lastName(source.file);
    case "file":
    case "pvc":
      return lastName(source.path);
    case "s3":
    case "oss":
    case "gs":
      return lastName(source.key);
    case "ollama":
    case "oci":
      return undefined;
    default:
      return source satisfies never;
  }
}

function bare(text: string): ModelSource {
  if (text.includes("..") || text.split("/").length < 2) {
    throw invalid(
      text,
      "it is neither a URL, an absolute path nor org/repo",
      "hf://org/repo, https://… or /path/on/the/host",
    );
  }
  return { kind: "hf", ...repository(text, text, "org/repo[/file.gguf][@revision]", "main") };
}

function web(text: string): ModelSource {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.hostname === "")
    throw invalid(text, "it is not a valid URL", "https://host/path/model.gguf");
  if (url.username !== "" || url.password !== "") {
    throw invalid(
      `${url.protocol}//…@${url.host}${url.pathname}`,
      "it holds a user name or password",
      "put credentials into spec.sourceSecretRef",
    );
  }
  url.hash = "";
  return { kind: "http", url: url.href };
}

function file(text: string, path: string): ModelSource {
  if (!path.startsWith("/"))
    throw invalid(text, "the path is not absolute", "file:///path/on/the/host (three slashes)");
  if (path.split("/").includes("..")) throw invalid(text, "the path holds '..'", "the path without it");
  if (path.includes("\0")) throw invalid(text, "the path holds a zero byte", "the path without it");
  if (/^\/+$/.test(path)) throw invalid(text, "it names no file", "file:///path/on/the/host/model.gguf");
  return { kind: "file", path: path.replace(/\/{2,}/g, "/").replace(/(?<=.)\/$/, "") };
}

function volume(text: string, rest: string): ModelSource {
  const [claim = "", ...path] = rest.split("/");
  if (!DNS_SUBDOMAIN.test(claim))
    throw invalid(text, `${JSON.stringify(claim)} is not a claim's name`, "pvc://claim/path/model.gguf");
  return { kind: "pvc", claim, path: relative(text, path.join("/"), "pvc://claim/path/model.gguf") };
}

function bucket(text: string, kind: "s3" | "oss" | "gs", rest: string): ModelSource {
  const [name = "", ...key] = rest.split("/");
  const form = `${kind}://bucket/path/model.gguf`;
  if (!BUCKET.test(name)) throw invalid(text, `${JSON.stringify(name)} is not a bucket's name`, form);
  return { kind, bucket: name, key: relative(text, key.join("/"), form) };
}

function ollama(text: string, rest: string): ModelSource {
  // The host before the first slash may have a port.
  const colon = rest.indexOf(":", rest.lastIndexOf("/") + 1);
  const name = colon < 0 ? rest : rest.slice(0, colon);
  const tag = colon < 0 ? "latest" : rest.slice(colon + 1);
  if (!OLLAMA_NAME.test(name) || name.includes(".."))
    throw invalid(text, "the name is not valid", "ollama://name:tag");
  if (!OLLAMA_TAG.test(tag)) throw invalid(text, "the tag is not valid", "ollama://name:tag");
  return { kind: "ollama", name, tag };
}

/** The tag is `latest` where there is none; a digest wins over a tag. */
function oci(text: string, rest: string): ModelSource {
  const form = "oci://registry/repository:tag or oci://registry/repository@sha256:…";
  const [named = "", digest, ...more] = rest.split("@");
  const slash = named.indexOf("/");
  const registry = named.slice(0, Math.max(0, slash)).toLowerCase();
  const path = named.slice(slash + 1);
  const colon = path.lastIndexOf(":");
  const asked = colon < 0 ? path : path.slice(0, colon);
  const tag = colon < 0 ? "latest" : path.slice(colon + 1);
  const isHost = /[.:]/.test(registry) || registry === "localhost";
  if (!isHost || !REGISTRY.test(registry) || registry.includes(".."))
    throw invalid(text, "it does not begin with the host of a registry", form);
  // The library of Docker Hub may be left out, as in docker pull.
  const repository = registry === "docker.io" && !asked.includes("/") ? `library/${asked}` : asked;
  if (repository.length > 255 || !OCI_PATH.test(repository))
    throw invalid(text, "the repository is not valid (lower case, no empty parts)", form);
  if (!OCI_TAG.test(tag)) throw invalid(text, "the tag is not valid", form);
  if (more.length > 0 || (digest !== undefined && !/^sha256:[0-9a-f]{64}$/.test(digest)))
    throw invalid(text, "the digest is not sha256: and 64 hex digits", form);
  return { kind: "oci", registry, repository, reference: digest ?? tag };
}

function repository(text: string, rest: string, form: string, revision: string) {
  const at = rest.lastIndexOf("@");
  const path = at < 0 ? rest : rest.slice(0, at);
  const wanted = at < 0 ? revision : rest.slice(at + 1);
  const [organisation = "", name = "", ...file] = path.split("/");
  if (![organisation, name].every((part) => REPOSITORY_PART.test(part) && !part.includes(".."))) {
    throw invalid(text, "it does not name an organisation and a repository", form);
  }
  if (wanted === "" || !/^[A-Za-z0-9][A-Za-z0-9._/-]*$/.test(wanted) || wanted.includes("..")) {
    throw invalid(text, "the revision after @ is not valid", form);
  }
  const repo = `${organisation}/${name}`;
  const named = file.join("/");
  return named === ""
    ? { repo, revision: wanted }
    : { repo, file: relative(text, named, form), revision: wanted };
}

function relative(text: string, path: string, form: string): string {
  const plain = decoded(text, path).replace(/\/+$/, "");
  if (plain === "") throw invalid(text, "it names no file", form);
  if (plain.split("/").some((part) => part === "" || part === "." || part === "..") || plain.includes("\0")) {
    throw invalid(text, "the path in it holds an empty part, '.' or '..'", form);
  }
  return plain;
}

function decoded(text: string, path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    throw invalid(text, "a % in it is not followed by two hex digits", "write a plain percent sign as %25");
  }
}

function safelyDecoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

function lastName(path: string): string | undefined {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return name === "" ? undefined : name;
}

function invalid(text: string, why: string, form: string): MetalbridgeError {
  return new MetalbridgeError("SourceInvalid", `${JSON.stringify(text)} is not a source: ${why}`, {
    summary: `write it as ${form}`,
  });
}
