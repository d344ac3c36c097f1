/** Complete lists, fetched by page, so that neither side holds more than a page of JSON at a time. */
import { parseJson } from "../../util/parse-json.ts";
import { failureOfBadBody } from "../errors.ts";
import { apiVersionOf, collectionPath, selectorQuery } from "../paths.ts";
import type { ApiResult, Kind, KubeObject, ListOptions } from "../types.ts";
import type { KubeConnection } from "./connect.ts";
import { CODE_TOO_LONG } from "./transport.ts";

export interface ListCall<T = unknown> extends ListOptions {
  readonly timeoutMs: number;
  readonly userAgent?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly pageSize?: number;
  readonly maxPageBytes?: number;
  /** The part of each object that is returned; by default all of it. */
  readonly keep?: ((object: T) => T) | undefined;
}

export interface Listed<T> {
  readonly items: T[];
  readonly resourceVersion: string;
}

interface Page {
  readonly metadata?: { readonly resourceVersion?: string; readonly continue?: string };
  readonly items?: unknown[] | null;
}

/** Reads the current resourceVersion of the collection with a list of one object. */
export async function readResourceVersion(
  connection: KubeConnection,
  kind: Kind<KubeObject>,
  call: Omit<ListCall, "pageSize" | "keep">,
): Promise<ApiResult<string>> {
  const response = await readPage(connection, kind, call, { limit: "1" });
  return response.ok ? { ok: true, value: response.value.metadata?.resourceVersion ?? "" } : response;
}

const PAGE_SIZE = 500;
/** A page is in memory three times at the same time: as bytes, as text and as objects. */
const MAX_PAGE_BYTES = 32 << 20;
/** An object has at most 1.5 MiB in etcd, so ten objects always fit in a page. */
const MIN_PAGE_SIZE = 10;
/** A continuation may expire because of a compaction; the list is then restarted. */
const MAX_ATTEMPTS = 3;

/** Lists all objects. The timeout applies to each page. */
export async function listPages<T extends KubeObject>(
  connection: KubeConnection,
  kind: Kind<T>,
  call: ListCall<T>,
): Promise<ApiResult<Listed<T>>> {
  let result = await listOnce(connection, kind, call);
  for (let attempt = 1; attempt < MAX_ATTEMPTS && !result.ok && result.error.kind === "gone"; attempt += 1) {
    result = await listOnce(connection, kind, call);
  }
  return result;
}

async function listOnce<T extends KubeObject>(
  connection: KubeConnection,
  kind: Kind<T>,
  { keep = (all) => all, ...call }: ListCall<T>,
): Promise<ApiResult<Listed<T>>> {
  const items: T[] = [];
  let size = call.pageSize ?? PAGE_SIZE;
  let continuation: string | undefined;
  for (;;) {
    const response = await readPage(connection, kind, call, { limit: String(size), continue: continuation });
    if (!response.ok && response.error.reason === CODE_TOO_LONG && size > MIN_PAGE_SIZE) {
      size = Math.max(MIN_PAGE_SIZE, Math.floor(size / 4));
      continue;
    }
    if (!response.ok) return response;
    const page = response.value;
    for (const item of page.items ?? []) items.push(keep(withType(item as T, kind)));
    continuation = page.metadata?.continue;
    if (continuation === undefined || continuation === "") {
      return { ok: true, value: { items, resourceVersion: page.metadata?.resourceVersion ?? "" } };
    }
  }
}

async function readPage(
  connection: KubeConnection,
  kind: Kind<KubeObject>,
  call: Omit<ListCall, "keep">,
  paging: { readonly limit: string; readonly continue?: string | undefined },
): Promise<ApiResult<Page>> {
  const response = await connection.request({
    method: "GET",
    path: collectionPath(kind, call.namespace, { ...selectorQuery(call), ...paging }),
    timeoutMs: call.timeoutMs,
    userAgent: call.userAgent,
    signal: call.signal,
    maxBodyBytes: call.maxPageBytes ?? MAX_PAGE_BYTES,
  });
  if (!response.ok) return response;
  const page = parsePage(response.value);
  return page === undefined
    ? { ok: false, error: failureOfBadBody(response.value) }
    : { ok: true, value: page };
}

function parsePage(text: string): Page | undefined {
  const parsed = parseJson(text);
  if (typeof parsed !== "object" || parsed === null || !("items" in parsed)) return undefined;
  const { items } = parsed;
  return items === null || (Array.isArray(items) && items.every(isNamed)) ? (parsed as Page) : undefined;
}

// The server omits apiVersion and kind in list items only.
function withType<T extends KubeObject>(item: T, kind: Kind<T>): T {
  return { apiVersion: apiVersionOf(kind), kind: kind.kind, ...item };
}

/** True if the value has the name and version that every object of a list or watch has. */
export function isNamed(object: unknown): boolean {
  return hasVersion(object) && "name" in object.metadata && typeof object.metadata.name === "string";
}

export function hasVersion(object: unknown): object is { metadata: { resourceVersion: string } } {
  if (typeof object !== "object" || object === null || !("metadata" in object)) return false;
  const { metadata } = object;
  if (typeof metadata !== "object" || metadata === null || !("resourceVersion" in metadata)) return false;
  return typeof metadata.resourceVersion === "string";
}
