/** Reads a folder or a file of a bucket, for S3, Google Cloud Storage and OSS. */
import { MetalbridgeError } from "../../api/errors.ts";
import type { BucketSource } from "../../models/source/kinds/buckets.ts";
import {
  type HttpRules,
  type RequestAuthorizer,
  readResponseText,
  requestText,
  type SourceResponse,
  sendSourceRequest,
} from "../client.ts";
import { isBelowUrl, permanent, plainUrl, SourceFailure, statusFailure } from "../failure.ts";
import type { Access, FileList, SourceReader } from "../remote-source.ts";

/** One kind of server, with the credentials for one bucket. */
export interface BucketService extends Pick<RequestAuthorizer, "authorize"> {
  readonly rules: HttpRules;
  readonly isAnonymous: boolean;
  /** Address of the bucket, with a slash at its end. */
  readonly base: () => string;
  /** Absent: its files are below `base`. Required if `base` depends on a region that the server reports. */
  readonly holds?: SourceReader["holds"] | undefined;
  /** Learns the bucket's region, or discards a refused token. Returns true if the request should be sent again. */
  readonly learn?: (response: SourceResponse, error: BucketError | undefined) => boolean;
  /** Sets the clock of signatures to the server's time. */
  readonly setClock?: (nowMs: number) => void;
  /** Headers that request the SHA-256 of an object; absent if the service has none. */
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
  // The extension determines whether the key is a file, without a request.
  const isFile = /\.(gguf|safetensors)$/i.test(key);
  const folder = isFile ? key.slice(0, key.lastIndexOf("/") + 1) : `${key}/`;
  const authority: RequestAuthorizer = { ...(authorize && { authorize }), judge: judgeOf(shown, service) };
  const locate = (name: string) => new URL(`${service.base()}${encoded(`${folder}${name}`)}`);
  /** Files whose checksum the list promises. Undefined: the folder was not listed, and each file may have one. */
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
        const request = { method: "HEAD", headers: checksumHeaders, signal, ...authority } as const;
        const response = await sendSourceRequest(locate(name), request, rules);
        response.body.destroy();
        return sha256Of(response.headers["x-amz-checksum-sha256"]);
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
      // Web consoles create an empty object for each folder.
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
  // The canonical request of a signature must not contain a plus.
  url.search = query.toString().replaceAll("+", "%20");
  const limits = { maxBytes: MAX_PAGE_BYTES };
  const { text } = await requestText(url, { signal, ...authority }, service.rules, limits);
  const page = parsePage(text);
  if (page === undefined) throw permanent("SourceRefused", `${plainUrl(url)} is not a bucket's list`);
  return page;
}

function judgeOf(shown: string, service: BucketService): NonNullable<RequestAuthorizer["judge"]> {
  let isClockSet = false;
  return async (response, signal) => {
    const { url, headers } = response;
    const before = service.base();
    const read = () => readResponseText(response, MAX_ERROR_BYTES, signal).catch(() => "");
    const error = headers.location === undefined ? parseError(await read()) : undefined;
    if (service.learn?.(response, error) === true && url.href.startsWith(before))
      return new URL(`${service.base()}${url.href.slice(before.length)}`);
    if (error === undefined) return undefined;
    const serverMs = Date.parse(headers.date ?? "");
    if (error.code === "RequestTimeTooSkewed" && !isClockSet && service.setClock && serverMs > 0) {
      isClockSet = true;
      service.setClock(serverMs);
      return url;
    }
    throw failureOf(`${shown}: the server answered ${error.code}`, error.code, response, service);
  };
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

/** The failure for the server's code, or else for the status. */
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

/** Converts the Base64 checksum of a complete object. The checksum of a multipart upload ends with a number and is ignored. */
function sha256Of(header: string | readonly string[] | undefined): string | undefined {
  if (typeof header !== "string" || !/^[A-Za-z0-9+/]{43}=$/.test(header)) return undefined;
  return Buffer.from(header, "base64").toString("hex");
}

function encoded(path: string): string {
  return path.split("/").map(encodeURIComponent).join("/");
}

/** Returns a function that finds the first of several keys in the Model's Secret, or else in the credentials of this machine. */
export function bucketSettingsOf({ credentials, machineCredentials }: Access) {
  const all = credentials ?? machineCredentials ?? {};
  return (...names: readonly string[]): string | undefined =>
    names.map((name) => all[name]).find((value) => value !== undefined && value !== "");
}

/** Parses an endpoint from credentials. Private addresses are allowed for the machine's own endpoint. Throws MetalbridgeError. */
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
    throw new MetalbridgeError("SourceSecretInvalid", `the credentials have only one of ${names}`);
  return id === undefined || secret === undefined ? undefined : { id, secret };
}

/** `https://bucket.host/`, or `https://host/bucket/` for path style. */
export function bucketAddress(endpoint: URL, bucket: string, isPathStyle: boolean): string {
  const path = endpoint.pathname.replace(/\/*$/, "/");
  return isPathStyle
    ? `${endpoint.origin}${path}${bucket}/`
    : `${endpoint.protocol}//${bucket}.${endpoint.host}${path}`;
}

interface ListedObject {
  readonly key: string;
  readonly sizeBytes: number | undefined;
  /** True if the server can report the SHA-256. */
  readonly hasSha256: boolean;
}

interface Page {
  readonly objects: readonly ListedObject[];
  /** Token for the next page; undefined on the last page. */
  readonly next: string | undefined;
}

/** The server's message is omitted, because it is untrusted text. */
interface BucketError {
  readonly code: string;
  /** Region of the bucket, if the server reports it. */
  readonly region: string | undefined;
  readonly endpoint: string | undefined;
}

/** A page of a list, from the XML of bucket servers. Undefined for text that is not a page. */
export function parsePage(xml: string): Page | undefined {
  if (!xml.includes("<ListBucketResult")) return undefined;
  const isEncoded = textOf(xml, "EncodingType") === "url";
  const [head = "", ...entries] = xml.split("<Contents>");
  const objects = entries.map((entry) => {
    const key = textOf(entry, "Key") ?? "";
    const size = textOf(entry, "Size") ?? "";
    return {
      key: isEncoded ? decoded(key) : key,
      sizeBytes: /^\d{1,15}$/.test(size) ? Number(size) : undefined,
      hasSha256: entry.includes("<ChecksumAlgorithm>SHA256<"),
    };
  });
  const around = `${head}${entries.at(-1)?.split("</Contents>")[1] ?? ""}`;
  const isTruncated = textOf(around, "IsTruncated") === "true";
  return { objects, next: isTruncated ? textOf(around, "NextContinuationToken") : undefined };
}

const CODE = /^[A-Za-z]{1,64}$/;

/** Undefined for text that is not an error, or whose code is not a word. */
export function parseError(xml: string): BucketError | undefined {
  const code = xml.includes("<Error>") ? textOf(xml, "Code") : undefined;
  if (code === undefined || !CODE.test(code)) return undefined;
  return { code, region: textOf(xml, "Region"), endpoint: textOf(xml, "Endpoint") };
}

function textOf(xml: string, name: string): string | undefined {
  const from = xml.indexOf(`<${name}>`);
  const to = xml.indexOf(`</${name}>`, from);
  return from < 0 || to < 0 ? undefined : unescaped(xml.slice(from + name.length + 2, to));
}

const ENTITIES: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };

function unescaped(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(\w{2,4}));/gi, (whole, decimal, hex, name) => {
    if (name !== undefined) return ENTITIES[name] ?? whole;
    const point = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal);
    return point <= 0x10ffff ? String.fromCodePoint(point) : whole;
  });
}

function decoded(key: string): string {
  try {
    return decodeURIComponent(key.replaceAll("+", " "));
  } catch {
    return key;
  }
}
