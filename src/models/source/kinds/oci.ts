/** Model artifacts of OCI registries. */
import { InvalidSource, type SourceKind } from "./kind.ts";

export interface OciSource {
  readonly kind: "oci";
  /** Host and port. */
  readonly registry: string;
  readonly repository: string;
  /** A tag, or a digest (`sha256:…`). */
  readonly reference: string;
}

const REGISTRY = /^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\d{1,5})?$/;
const PATH = /^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(\/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$/;
const TAG = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/;
const PLAIN_HOST = /^(localhost|127(\.\d{1,3}){3})(:\d+)?$/;
const FORM = "oci://registry/repository:tag or oci://registry/repository@sha256:…";
/** The registry that serves docker.io. */
export const DOCKER_HUB = "registry-1.docker.io";

export const OCI = {
  schemes: ["oci"],
  form: "oci://registry/repository:tag",
  readBy: "hub",
  parse: (rest) => parseArtifact(rest),
  shortName: ({ repository, reference }: OciSource) => {
    const name = repository.split("/").at(-1) ?? "";
    return /^(latest$|sha256:)/.test(reference) ? name : `${name}-${reference}`;
  },
  origin: ({ registry }: OciSource) => registryAt(registry),
} satisfies SourceKind<OciSource>;

/** Registries speak TLS, except those on this machine's own loopback. */
export function registryAt(host: string): string {
  const name = host === "docker.io" ? DOCKER_HUB : host;
  return `${PLAIN_HOST.test(name) ? "http" : "https"}://${name}`;
}

/** The tag is `latest` where there is none; a digest wins over a tag. */
function parseArtifact(rest: string): OciSource {
  const [named = "", digest, ...more] = rest.split("@");
  const slash = named.indexOf("/");
  const registry = named.slice(0, Math.max(0, slash)).toLowerCase();
  const path = named.slice(slash + 1);
  const colon = path.lastIndexOf(":");
  const asked = colon < 0 ? path : path.slice(0, colon);
  const tag = colon < 0 ? "latest" : path.slice(colon + 1);
  const isHost = /[.:]/.test(registry) || registry === "localhost";
  if (!isHost || !REGISTRY.test(registry) || registry.includes(".."))
    throw new InvalidSource("it does not begin with the host of a registry", FORM);
  // The library of Docker Hub may be left out, as in docker pull.
  const repository = registry === "docker.io" && !asked.includes("/") ? `library/${asked}` : asked;
  if (repository.length > 255 || !PATH.test(repository))
    throw new InvalidSource("the repository is not valid (lower case, no empty parts)", FORM);
  if (!TAG.test(tag)) throw new InvalidSource("the tag is not valid", FORM);
  if (more.length > 0 || (digest !== undefined && !/^sha256:[0-9a-f]{64}$/.test(digest)))
    throw new InvalidSource("the digest is not sha256: and 64 hex digits", FORM);
  return { kind: "oci", registry, repository, reference: digest ?? tag };
}
