/** Requests to a registry with the OCI distribution API: authorization, and manifests that are verified by their digest. */
import { z } from "zod";
import type { SourceCredentials } from "../../models/source/credentials.ts";
import { DOCKER_HUB } from "../../models/source/kinds/oci.ts";
import { sha256Hex } from "../../util/hash.ts";
import { parseJson } from "../../util/parse-json.ts";
import { type HttpRules, type RequestAuthorizer, requestText } from "../client.ts";
import { notAllowed, permanent } from "../failure.ts";
import type { FileList } from "../remote-source.ts";
import { chooseManifest, hexOf, type OciDescriptor, type OciManifest, parseOciManifest } from "./manifest.ts";

export interface Repository {
  /** Scheme and host. */
  readonly base: string;
  readonly name: string;
  /** For messages. */
  readonly shown: string;
  readonly rules: HttpRules;
  readonly authority: Required<RequestAuthorizer>;
}

const MANIFEST_TYPES = [
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.docker.distribution.manifest.v2+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
].join(", ");

/** The limit of the distribution specification. */
const MAX_MANIFEST_BYTES = 4 << 20;
const MAX_TOKEN_BYTES = 1 << 20;

/** Lists the files of a tag or digest. `filesOf` reads the layers of the manifest. Throws SourceFailure, or MetalbridgeError for the content. */
export async function listArtifact(
  repository: Repository,
  reference: string,
  filesOf: (layers: readonly OciDescriptor[], shown: string) => FileList,
  signal: AbortSignal,
): Promise<FileList> {
  const { shown } = repository;
  const first = await readManifest(repository, reference, signal);
  if (first.manifest.at === "image")
    return { revision: first.digest, ...filesOf(first.manifest.layers, shown) };
  const { digest } = chooseManifest(first.manifest.manifests, shown);
  hexOf(digest, shown);
  const { manifest } = await readManifest(repository, digest, signal);
  if (manifest.at === "index")
    throw permanent("SourceIsNotAModel", `${shown} is an index that holds another index`);
  return { revision: first.digest, ...filesOf(manifest.layers, shown) };
}

export function blobUrl({ base, name, shown }: Repository, file: string, list: FileList | undefined): URL {
  const sha256 = list?.files.find((candidate) => candidate.name === file)?.sha256;
  if (sha256 === undefined) throw permanent("SourceNotFound", `${shown} has no file ${file}`);
  return new URL(`${base}/v2/${name}/blobs/sha256:${sha256}`);
}

async function readManifest(
  { base, name, shown, rules, authority }: Repository,
  reference: string,
  signal: AbortSignal,
): Promise<{ readonly manifest: OciManifest; readonly digest: string }> {
  const url = new URL(`${base}/v2/${name}/manifests/${reference}`);
  const request = { headers: { accept: MANIFEST_TYPES }, signal, ...authority };
  const { text, headers } = await requestText(url, request, rules, {
    maxBytes: MAX_MANIFEST_BYTES,
    onStatus: ({ status }) => {
      if (status === 404)
        throw permanent("SourceNotFound", `${shown}: the registry has no such repository, tag or digest`);
    },
  });
  const digest = `sha256:${sha256Hex(text)}`;
  const named = reference.includes(":") ? reference : headers["docker-content-digest"];
  if (typeof named === "string" && named.startsWith("sha256:") && named !== digest)
    throw permanent("ChecksumMismatch", `the manifest of ${shown} has digest ${digest}, not ${named}`);
  return { manifest: parseOciManifest(text, shown), digest };
}

/** The token flow and Basic authorization of one repository. A 401 starts it; then every request is authorized. */
export function repositoryAuthority(
  { base, name, rules }: Pick<Repository, "base" | "name" | "rules">,
  credentials: SourceCredentials | undefined,
): Required<RequestAuthorizer> {
  const basic = basicOf(credentials, new URL(base).host);
  const { token } = credentials ?? {};
  let authorization = basic === undefined && token !== undefined ? `Bearer ${token}` : undefined;
  const answerTo = async (challenge: string, signal: AbortSignal): Promise<string | undefined> => {
    const bearer = /(?:^|,)\s*bearer\s+(.*)$/is.exec(challenge)?.[1];
    if (bearer === undefined) return /(?:^|,)\s*basic\b/i.test(challenge) ? basic : undefined;
    return requestToken(tokenUrl(bearer, base, name), { basic, rules, signal });
  };
  return {
    authorize: async (): Promise<Record<string, string>> =>
      authorization === undefined ? {} : { authorization },
    judge: async ({ url, status, headers }, signal) => {
      const challenge = headers["www-authenticate"];
      if (status !== 401 || challenge === undefined) return undefined;
      const before = authorization;
      authorization = await answerTo(challenge, signal);
      return authorization === undefined || authorization === before ? undefined : url;
    },
  };
}

/** The token is always requested for reading this repository only, regardless of the challenge. */
function tokenUrl(challenge: string, base: string, repository: string): URL {
  const parameters = new Map(
    [...challenge.matchAll(/([a-z]+)="([^"]*)"/gi)].map(([, key = "", value = ""]) => [
      key.toLowerCase(),
      value,
    ]),
  );
  const realm = URL.parse(parameters.get("realm") ?? "");
  if (realm === null)
    throw permanent("SourceRefused", `${base} requires a token without naming the token server`);
  if (base.startsWith("https:") && realm.protocol !== "https:")
    throw notAllowed(
      `${base} requires a token from ${realm.host} without TLS`,
      "use a registry whose token server has TLS",
    );
  const service = parameters.get("service");
  if (service !== undefined) realm.searchParams.set("service", service);
  realm.searchParams.set("scope", `repository:${repository}:pull`);
  return realm;
}

const tokenSchema = z.object({ token: z.string().optional(), access_token: z.string().optional() });

interface TokenRequest {
  /** Authorization for the token server; undefined requests an anonymous token. */
  readonly basic: string | undefined;
  readonly rules: HttpRules;
  readonly signal: AbortSignal;
}

async function requestToken(url: URL, { basic, rules, signal }: TokenRequest): Promise<string> {
  const authorize = async (): Promise<Record<string, string>> =>
    basic === undefined ? {} : { authorization: basic };
  const credentials = basic === undefined ? "an anonymous pull" : "the user name and password of the Secret";
  const { text } = await requestText(url, { signal, authorize }, rules, {
    maxBytes: MAX_TOKEN_BYTES,
    onStatus: ({ status }) => {
      if ([400, 401, 403].includes(status))
        throw permanent(
          "SourceUnauthorized",
          `the token server ${url.host} refused ${credentials} (${status})`,
        );
    },
  });
  const { data } = tokenSchema.safeParse(parseJson(text));
  const token = data?.token ?? data?.access_token;
  if (token === undefined || !/^[\x21-\x7e]+$/.test(token))
    throw permanent("SourceRefused", `the token server ${url.host} answered without a token`);
  return `Bearer ${token}`;
}

const dockerConfigSchema = z.object({
  auths: z.record(
    z.string(),
    z.object({
      auth: z.string().optional(),
      username: z.string().optional(),
      password: z.string().optional(),
    }),
  ),
});

/** The header from `username` and `password`, or from the entry of this registry in a `.dockerconfigjson`. */
function basicOf(credentials: SourceCredentials | undefined, host: string): string | undefined {
  const { username, password, ".dockerconfigjson": config } = credentials ?? {};
  if (username !== undefined && password !== undefined) return encoded(username, password);
  if (config === undefined) return undefined;
  const { data } = dockerConfigSchema.safeParse(parseJson(config));
  if (data === undefined)
    throw permanent("SourceSecretInvalid", ".dockerconfigjson of the Secret is not valid");
  const names = host === DOCKER_HUB ? [host, "docker.io", "index.docker.io"] : [host];
  const entry = Object.entries(data.auths).find(([key]) =>
    names.includes(key.replace(/^https?:\/\//, "").replace(/\/.*$/, "")),
  )?.[1];
  if (entry?.auth !== undefined && /^[A-Za-z0-9+/=]+$/.test(entry.auth)) return `Basic ${entry.auth}`;
  const { username: user, password: secret } = entry ?? {};
  return user === undefined || secret === undefined ? undefined : encoded(user, secret);
}

function encoded(username: string, password: string): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
}
