/** Requests to a repository of a registry (https://github.com/opencontainers/distribution-spec), with the authorization that it asks for. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import { z } from "zod";
import { registryAt } from "../../src/models/source/kinds/oci.ts";
import { ReleaseError } from "../project/release-error.ts";

const TIMEOUT_MS = 60_000;
/** An upload may be as slow as that: 2 Mbit/s. */
const MIN_UPLOAD_BYTES_PER_MS = 250;

const tokenSchema = z.object({ token: z.string().optional(), access_token: z.string().optional() });

export interface ImageReference {
  readonly host: string;
  readonly repository: string;
  readonly tag: string;
}

/** `HOST/REPOSITORY:TAG`: the host is never guessed. */
export function parseReference(text: string): ImageReference {
  const match = /^([^/]+)\/([a-z0-9][a-z0-9._/-]*):([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})$/.exec(text);
  const [, host = "", repository = "", tag = ""] = match ?? [];
  if (!/[.:]|^localhost$/.test(host))
    throw new ReleaseError(
      `${JSON.stringify(text)} is not an image reference`,
      "write HOST/REPOSITORY:TAG, such as registry.example.com/metalbridge:1.2.3",
    );
  return { host, repository, tag };
}

/** User name and password as Basic authorization; undefined where there are none. */
export type RegistryCredentials = string | undefined;

/**
 * REGISTRY_USERNAME and REGISTRY_PASSWORD, else what `docker login`, `helm registry login` or `podman login` wrote for the host:
 * $DOCKER_CONFIG/config.json or ~/.docker/config.json, with credential helpers.
 */
export function credentialsFor(host: string, env: NodeJS.ProcessEnv = process.env): RegistryCredentials {
  const { REGISTRY_USERNAME: name, REGISTRY_PASSWORD: password } = env;
  if (name !== undefined && password !== undefined) return encode(name, password);
  const file = path.join(env.DOCKER_CONFIG ?? path.join(homedir(), ".docker"), "config.json");
  if (!existsSync(file)) return undefined;
  const { auths = {}, credHelpers = {}, credsStore } = JSON.parse(readFileSync(file, "utf8"));
  const key = host === "docker.io" ? "https://index.docker.io/v1/" : host;
  const helper = credHelpers[key] ?? (auths[key]?.auth === undefined ? credsStore : undefined);
  return helper === undefined ? auths[key]?.auth : askHelper(helper, key, env);
}

function askHelper(helper: string, input: string, env: NodeJS.ProcessEnv): RegistryCredentials {
  try {
    const said = execFileSync(`docker-credential-${helper}`, ["get"], {
      input,
      env,
      stdio: ["pipe", "pipe", "ignore"],
    });
    const { Username, Secret } = JSON.parse(said.toString("utf8"));
    return encode(Username, Secret);
  } catch {
    // It exits with an error where it has none for the host.
    return undefined;
  }
}

function encode(name: string, password: string): string {
  return Buffer.from(`${name}:${password}`).toString("base64");
}

export type Send = (url: string | URL, init?: RequestInit, expected?: readonly number[]) => Promise<Response>;

/** Requests of one repository: addresses are relative to it. Throws ReleaseError for a response that is not expected. */
export function repositoryClient(
  { host, repository }: Omit<ImageReference, "tag">,
  credentials: RegistryCredentials,
  timeoutMs = TIMEOUT_MS,
): Send {
  const base = registryAt(host);
  let authorization = credentials === undefined ? undefined : `Basic ${credentials}`;
  return async (address, init = {}, expected = [200, 201, 202]) => {
    const url = new URL(address, `${base}/v2/${repository}/`);
    const send = () => {
      const headers = new Headers(init.headers);
      // An upload may be on another host, which gets its authorization in the address.
      if (authorization !== undefined && url.origin === new URL(base).origin)
        headers.set("authorization", authorization);
      return request(url, { ...init, headers }, timeoutMs);
    };
    let response = await send();
    if (response.status === 401) {
      const challenge = response.headers.get("www-authenticate") ?? "";
      await response.body?.cancel();
      authorization = await answerTo(challenge, { host, repository }, { credentials, timeoutMs });
      response = await send();
    }
    if (expected.includes(response.status)) return response;
    const text = (await response.text()).slice(0, 500);
    const isRefusal = response.status === 401 || response.status === 403;
    throw new ReleaseError(
      `${url.origin}${url.pathname} answered ${response.status}: ${text}`,
      isRefusal
        ? remedyFor(host, credentials)
        : "correct what the response names, or run the same command again",
    );
  };
}

/** A blob may take longer, by its size. */
async function request(url: URL, init: RequestInit, timeoutMs: number): Promise<Response> {
  const size = init.body instanceof Blob ? init.body.size : 0;
  const limitMs = timeoutMs + Math.ceil(size / MIN_UPLOAD_BYTES_PER_MS);
  try {
    return await fetch(url, { ...init, signal: AbortSignal.timeout(limitMs) });
  } catch (cause) {
    const where = `${url.origin}${url.pathname}`;
    if (cause instanceof Error && cause.name === "TimeoutError") {
      const why = `${where} did not answer within ${limitMs / 1_000} s`;
      throw new ReleaseError(why, "run the same command again", { cause });
    }
    // fetch says only that it failed, and its cause why; an attempt at several addresses has only a code.
    if (!(cause instanceof TypeError && cause.cause instanceof Error)) throw cause;
    const { message, code }: NodeJS.ErrnoException = cause.cause;
    throw new ReleaseError(
      `${where} cannot be reached: ${message || code}`,
      "check the registry's host and port",
      {
        cause,
      },
    );
  }
}

async function answerTo(
  challenge: string,
  { host, repository }: Omit<ImageReference, "tag">,
  { credentials, timeoutMs }: { readonly credentials: RegistryCredentials; readonly timeoutMs: number },
): Promise<string | undefined> {
  const basic = credentials === undefined ? undefined : `Basic ${credentials}`;
  const [, bearer] = /^bearer\s+(.*)$/is.exec(challenge) ?? [];
  if (bearer === undefined) return basic;
  const parameters = new Map(
    [...bearer.matchAll(/([a-z]+)="([^"]*)"/gi)].map(([, key = "", value = ""]) => [key, value]),
  );
  const url = new URL(parameters.get("realm") ?? "");
  if (registryAt(host).startsWith("https:") && url.protocol !== "https:")
    throw new ReleaseError(
      `${host} wants the password sent to ${url.origin} without TLS`,
      "use another registry",
    );
  const service = parameters.get("service");
  if (service !== undefined) url.searchParams.set("service", service);
  url.searchParams.set("scope", `repository:${repository}:pull,push`);
  const headers: HeadersInit = basic === undefined ? {} : { authorization: basic };
  const response = await request(url, { headers }, timeoutMs);
  const noToken = (why: string) =>
    new ReleaseError(`${url.origin}${url.pathname} gave no token: ${why}`, remedyFor(host, credentials));
  if (!response.ok) throw noToken(`it answered ${response.status}`);
  const { data } = tokenSchema.safeParse(await response.json().catch(() => undefined));
  const token = data?.token ?? data?.access_token;
  if (token === undefined || token === "") throw noToken("there is none in its response");
  return `Bearer ${token}`;
}

function remedyFor(host: string, credentials: RegistryCredentials): string {
  return credentials === undefined
    ? `log in (docker login ${host}), or set REGISTRY_USERNAME and REGISTRY_PASSWORD`
    : `check user name and password, and that they may push to ${host}`;
}
