/** Fetches a whole remote model: lists its files, brings each to the blobs, then publishes the view and the ref. */
import type { MetalbridgeError } from "../../src/errors.ts";
import type { Clock, Log } from "../../src/ports.ts";
import type { Source } from "../../src/source/source.ts";
import { publishView } from "./content/blobs.ts";
import type { FetchContent } from "./content/fetch-content.ts";
import { forgetFinished } from "./content/finished.ts";
import { contentKey, type Layout, requestKey, viewKey } from "./content/layout.ts";
import { type Listing, listRemoteFiles } from "./listing.ts";
import type { Ref, RefFile, Refs } from "./refs.ts";
import type { RemoteFile } from "./remote/download-context.ts";
import { plainUrl } from "./remote/failure.ts";
import type { RemoteRules } from "./remote/request.ts";
import { type RetryLimits, retrying } from "./remote/retrying.ts";
import { isUnchanged } from "./remote/revalidate.ts";
import type { FetchOptions, ModelRequest } from "./types.ts";

export interface ModelFetcher {
  readonly layout: Layout;
  readonly refs: Refs;
  readonly clock: Clock;
  readonly log: Log;
  readonly rules: RemoteRules;
  readonly limits: RetryLimits;
  readonly hfEndpoint: string;
  readonly hfToken: string | undefined;
  readonly fetchContent: FetchContent;
}

/** Downloads what is missing. `before` is a ref that is complete on disk; files that did not change are not fetched again. */
export async function fetchModel(
  source: Source,
  request: ModelRequest,
  before: Ref | undefined,
  options: FetchOptions,
  fetcher: ModelFetcher,
): Promise<Ref> {
  const ask = {
    rules: rulesFor(source, fetcher),
    secretHeaders: secretHeaders(source, request, fetcher),
    signal: options.signal,
  };
  const listing = await retrying(
    () => listRemoteFiles(source, request, { hfEndpoint: fetcher.hfEndpoint, ...ask }),
    fetcher.limits,
    { ...fetcher, signal: options.signal },
  );
  const files: RefFile[] = [];
  const progress = sumProgress(listing, options);
  for (const file of listing.files) {
    const old = before?.files.find((candidate) => candidate.name === file.name);
    const kept =
      old !== undefined && (await isStillThere(file, old, before, listing, ask, fetcher)) ? old : undefined;
    files.push(kept ?? (await fetchFile(file, ask, progress.during(file), fetcher)));
    progress.finished(file, files.at(-1)?.sizeBytes ?? 0);
  }
  return publish(request, listing, files, fetcher);
}

async function fetchFile(
  file: RemoteFile,
  ask: { secretHeaders: Readonly<Record<string, string>>; signal: AbortSignal },
  onProgress: (bytes: number, totalBytes: number | undefined) => void,
  fetcher: ModelFetcher,
): Promise<RefFile> {
  const { sha256, sizeBytes, validator } = await fetcher.fetchContent(file, { ...ask, onProgress });
  const { etag, lastModified } = validator;
  const said = {
    ...(etag === undefined ? {} : { etag }),
    ...(lastModified === undefined ? {} : { lastModified }),
  };
  return { name: file.name, sha256, sizeBytes, url: plainUrl(file.url), ...said };
}

/** A known checksum or commit decides; otherwise the source is asked. */
async function isStillThere(
  file: RemoteFile,
  old: RefFile,
  before: Ref | undefined,
  listing: Listing,
  ask: { rules: RemoteRules; secretHeaders: Readonly<Record<string, string>>; signal: AbortSignal },
  fetcher: ModelFetcher,
): Promise<boolean> {
  if (file.sha256 !== undefined) return file.sha256 === old.sha256;
  if (plainUrl(file.url) !== old.url) return false;
  if (listing.revision !== undefined && /^[0-9a-f]{40}$/.test(listing.revision))
    return before?.revision === listing.revision;
  const known = { etag: old.etag, lastModified: old.lastModified, totalBytes: old.sizeBytes };
  const validator = Object.fromEntries(Object.entries(known).filter(([, value]) => value !== undefined));
  return retrying(() => isUnchanged(file.url, validator, ask), fetcher.limits, {
    ...fetcher,
    signal: ask.signal,
  });
}

/** True for errors that say nothing about the content. */
export function isOutage(error: MetalbridgeError): boolean {
  return (
    error.code === "SourceUnreachable" || error.code === "SourceUnavailable" || error.code === "SourceStalled"
  );
}

async function publish(
  request: ModelRequest,
  listing: Listing,
  files: readonly RefFile[],
  { layout, refs, clock }: ModelFetcher,
): Promise<Ref> {
  const view = viewKey(files);
  await publishView(layout, view, files);
  const ref: Ref = {
    version: 1,
    key: requestKey(request),
    source: request.source,
    files: [...files],
    entry: listing.entry,
    view,
    fetchedAt: new Date(clock.nowMs()).toISOString(),
    lastUsedMs: clock.nowMs(),
    ...(listing.mmproj === undefined ? {} : { mmproj: listing.mmproj }),
    ...(listing.revision === undefined ? {} : { revision: listing.revision }),
  };
  await refs.put(ref);
  for (const file of listing.files) await forgetFinished(layout, contentKey(file));
  return ref;
}

/** The operator's own Hugging Face endpoint may be anywhere but at link-local addresses. */
function rulesFor(source: Source, { rules, hfEndpoint }: ModelFetcher): RemoteRules {
  return source.kind === "hf" ? { ...rules, trustedHost: new URL(hfEndpoint).host } : rules;
}

function secretHeaders(
  source: Source,
  request: ModelRequest,
  { hfToken }: ModelFetcher,
): Record<string, string> {
  const token = request.token ?? (source.kind === "hf" ? hfToken : undefined);
  return { ...(token === undefined ? {} : { authorization: `Bearer ${token}` }), ...request.headers };
}

function sumProgress(listing: Listing, { onProgress }: FetchOptions) {
  let before = 0;
  const sizes = listing.files.map((file) => file.sizeBytes);
  const known = sizes.every((size) => size !== undefined)
    ? sizes.reduce((sum: number, size) => sum + (size ?? 0), 0)
    : undefined;
  const isSingle = listing.files.length === 1;
  return {
    during: (_file: RemoteFile) => (bytes: number, totalBytes: number | undefined) => {
      const total = isSingle ? (totalBytes ?? known) : known;
      onProgress?.({ bytes: before + bytes, ...(total === undefined ? {} : { totalBytes: total }) });
    },
    finished: (_file: RemoteFile, sizeBytes: number) => {
      before += sizeBytes;
    },
  };
}
