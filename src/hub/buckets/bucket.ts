/** A folder or a file of a bucket: what S3, Google Cloud Storage and OSS have in common. */
import { MetalbridgeError } from "../../api/errors.ts";
import type { BucketSource } from "../../models/source/kinds/buckets.ts";
import {
  type HttpRules,
  type RequestAuthorizer,
  readResponseText,
  type SourceResponse,
  sendSourceRequest,
} from "../client.ts";
import { isBelowUrl, permanent, plainUrl, SourceFailure, statusFailure } from "../failure.ts";
import type { Access, FileList, SourceReader } from "../remote-source.ts";
import { type BucketError, type Page, parseError, parsePage } from "./xml.ts";

/** One kind of server, with the credentials for one bucket. */
export interface BucketService extends Pick<RequestAuthorizer, "authorize"> {
  readonly rules: HttpRules;
  readonly isAnonymous: boolean;
  /** Address of the bucket, with a slash at its end. */
  readonly base: () => string;
  /** Absent: its files are below `base`. Where the server says the region, `base` is not known before it was asked. */
  readonly holds?: SourceReader["holds"] | undefined;
  /** Takes up where the bucket is, or a new token; true when the request is worth sending once more. */
  readonly learn?: (answer: SourceResponse, error: BucketError | undefined) => boolean;
  /** Corrects the clock of signatures by what the server says of its own. */
  readonly setClock?: (nowMs: number) => void;
  /** Asks for the SHA-256 of an object; absent where the service has none. */
  readonly checksumHeaders?: Readonly<Record<string, string>>;
}

const MAX_FILES = 20_000;
/** Maximum number of pages, usually of a thousand entries each. A page may be empty, so the number of files alone would not end the list. */
const MAX_PAGES = 1_000;
const MAX_PAGE_BYTES = 8 << 20;
const MAX_ERROR_BYTES = 64 << 10;

export function openBucket(
  { kind, bucket, key }: BucketSource<string>,
  service: BucketService,
): SourceReader {
  const { rules, authorize, checksumHeaders } = service;
  const shown = `${kind}://${bucket}/${key}`;
  // A folder may have any name, so the ending decides, and no request.
  const isFile = /\.(gguf|safetensors)$/i.test(key);
  const folder = isFile ? key.slice(0, key.lastIndexOf("/") + 1) : `${key}/`;
  const authority: RequestAuthorizer = { ...(authorize && { authorize }), judge: judgeOf(shown, service) };
  const locate = (name: string) => new URL(`${service.base()}${encoded(`${folder}${name}`)}`);
  /** Those whose checksum the list promised; all of a folder that was not listed. */
  let withChecksum: ReadonlySet<string> | undefined;
  return {
    shown,
    rules,
    ...authority,
    named: isFile ? key.slice(folder.length) : undefined,
    hasCredentials: !service.isAnonymous,
    holds: service.holds ?? isBelowUrl(service.base()),
    list: async (signal) => {
      if (isFile) return undefined;
      const found = await listFolder(folder, shown, { service, authority, signal });
      withChecksum = found.withChecksum;
      return found.list;
    },
    locate,
    ...(checksumHeaders && {
      checksum: async (name: string, signal: AbortSignal) => {
        if (withChecksum?.has(name) === false) return undefined;
        const ask = { method: "HEAD", headers: checksumHeaders, signal } as const;
        const answer = await sendSourceRequest(locate(name), { ...ask, ...authority }, rules);
        answer.body.destroy();
        return sha256Of(answer.headers["x-amz-checksum-sha256"]);
      },
    }),
  };
}

interface Asking {
  readonly service: BucketService;
  readonly authority: RequestAuthorizer;
  readonly signal: AbortSignal;
}

async function listFolder(
  folder: string,
  shown: string,
  asking: Asking,
): Promise<{ readonly list: FileList; readonly withChecksum: ReadonlySet<string> }> {
  const files: FileList["files"][number][] = [];
  const withChecksum = new Set<string>();
  for await (const page of pagesOf(folder, shown, asking)) {
    for (const { key, sizeBytes, hasSha256 } of page.objects) {
      // Consoles make an empty object for each folder.
      if (key.endsWith("/") || !key.startsWith(folder)) continue;
      const name = key.slice(folder.length);
      files.push({ name, sizeBytes });
      if (hasSha256) withChecksum.add(name);
    }
    if (files.length > MAX_FILES)
      throw permanent(
        "SourceRefused",
        `${shown} has more than ${MAX_FILES} files; name a folder of the model`,
      );
  }
  if (files.length > 0) return { list: { files }, withChecksum };
  const remedy = { summary: "correct the path: it is a folder unless it ends in .gguf or .safetensors" };
  throw new SourceFailure(new MetalbridgeError("SourceNotFound", `${shown} holds no files`, remedy), false);
}

async function* pagesOf(folder: string, shown: string, asking: Asking): AsyncGenerator<Page> {
  let token: string | undefined;
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const page = await readPage(folder, token, asking);
    yield page;
    // A token that repeats would make the list endless.
    if (page.next === undefined || page.next === token) return;
    token = page.next;
  }
  throw permanent("SourceRefused", `${shown} is listed in more than ${MAX_PAGES} pages`);
}

async function readPage(
  prefix: string,
  token: string | undefined,
  { service, authority, signal }: Asking,
): Promise<Page> {
  const url = new URL(service.base());
  const next: Record<string, string> = token === undefined ? {} : { "continuation-token": token };
  const query = new URLSearchParams({ "list-type": "2", "encoding-type": "url", prefix, ...next });
  // Canonical requests of signatures know no plus.
  url.search = query.toString().replaceAll("+", "%20");
  const answer = await sendSourceRequest(url, { signal, ...authority }, service.rules);
  try {
    if (answer.status !== 200) throw statusFailure(url, answer.status, answer.headers["retry-after"]);
    const page = parsePage(await readResponseText(answer, MAX_PAGE_BYTES, signal));
    if (page === undefined) throw permanent("SourceRefused", `${plainUrl(url)} is not a bucket's list`);
    return page;
  } finally {
    answer.body.destroy();
  }
}

function judgeOf(shown: string, service: BucketService): NonNullable<RequestAuthorizer["judge"]> {
  let isClockSet = false;
  return async (answer, signal) => {
    const { url, headers } = answer;
    const before = service.base();
    const error = headers.location === undefined ? await readError(answer, signal) : undefined;
    if (service.learn?.(answer, error) === true && url.href.startsWith(before))
      return new URL(`${service.base()}${url.href.slice(before.length)}`);
    if (error === undefined) return undefined;
    const serverMs = Date.parse(headers.date ?? "");
    if (error.code === "RequestTimeTooSkewed" && !isClockSet && service.setClock && serverMs > 0) {
      isClockSet = true;
      service.setClock(serverMs);
      return url;
    }
    throw failureOf(`${shown}: the server answered ${error.code}`, error.code, answer, service);
  };
}

async function readError(answer: SourceResponse, signal: AbortSignal): Promise<BucketError | undefined> {
  return parseError(await readResponseText(answer, MAX_ERROR_BYTES, signal).catch(() => ""));
}

const BAD_CREDENTIALS = new Set([
  "InvalidAccessKeyId",
  "SignatureDoesNotMatch",
  "ExpiredToken",
  "InvalidToken",
  "TokenRefreshRequired",
  "RequestTimeTooSkewed",
  "SecurityTokenExpired",
  "InvalidSecurity",
]);

/** By the server's code, or by the status where that says as much. */
function failureOf(
  text: string,
  code: string,
  { url, status, headers }: SourceResponse,
  { isAnonymous }: BucketService,
): SourceFailure {
  if (code === "NoSuchBucket" || code === "NoSuchKey") return permanent("SourceNotFound", text);
  if (BAD_CREDENTIALS.has(code)) return permanent("SourceUnauthorized", text);
  if (code === "AccessDenied") return permanent(isAnonymous ? "SourceUnauthorized" : "SourceForbidden", text);
  const { error, isTransient, retryAfterMs } = statusFailure(url, status, headers["retry-after"]);
  return new SourceFailure(new MetalbridgeError(error.code, text), isTransient, retryAfterMs);
}

/** Base64 of the whole object; one of its parts has their number behind it, and is of no use. */
function sha256Of(header: string | readonly string[] | undefined): string | undefined {
  if (typeof header !== "string" || !/^[A-Za-z0-9+/]{43}=$/.test(header)) return undefined;
  return Buffer.from(header, "base64").toString("hex");
}

function encoded(path: string): string {
  return path.split("/").map(encodeURIComponent).join("/");
}

/** The first of these keys that is there: of the Model's Secret, else of this machine. */
export function bucketSettingsOf({ credentials, machineCredentials }: Access) {
  const all = credentials ?? machineCredentials ?? {};
  return (...names: readonly string[]): string | undefined =>
    names.map((name) => all[name]).find((value) => value !== undefined && value !== "");
}

/** An endpoint as credentials have it. That of the machine is the operator's own: private addresses are allowed there. Throws MetalbridgeError. */
export function bucketEndpointOf(
  text: string,
  { rules, credentials }: Access,
): { url: URL; rules: HttpRules } {
  const url = URL.parse(/^https?:\/\//i.test(text) ? text : `https://${text}`);
  if (url === null || url.username !== "" || url.search !== "")
    throw new MetalbridgeError(
      "SourceSecretInvalid",
      "the endpoint among the credentials is not an http(s) address",
    );
  return { url, rules: credentials === undefined ? { ...rules, trustedHost: url.host } : rules };
}

/** Both or neither. Throws MetalbridgeError. */
export function keyPair(id: string | undefined, secret: string | undefined, names: string) {
  if ((id === undefined) !== (secret === undefined))
    throw new MetalbridgeError("SourceSecretInvalid", `of ${names} one is missing among the credentials`);
  return id === undefined || secret === undefined ? undefined : { id, secret };
}

/** `https://bucket.host/`, or `https://host/bucket/` where names before the host do not resolve. */
export function bucketAddress(endpoint: URL, bucket: string, isPathStyle: boolean): string {
  const path = endpoint.pathname.replace(/\/*$/, "/");
  return isPathStyle
    ? `${endpoint.origin}${path}${bucket}/`
    : `${endpoint.protocol}//${bucket}.${endpoint.host}${path}`;
}
