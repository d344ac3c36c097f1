/** Fetches a remote model: lists its files, downloads each to a blob, then publishes the view and the ref. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import { plainUrl } from "../../src/hub/failure.ts";
import { readMark } from "../../src/hub/inspect/change-marker.ts";
import { openSource } from "../../src/hub/inspect/open.ts";
import { checksumProblem, type ResolvedSource, resolveSource } from "../../src/hub/inspect/resolve.ts";
import type { Access, OpenSource } from "../../src/hub/remote-source.ts";
import { isUnchanged } from "../../src/hub/validator.ts";
import type { ModelSource } from "../../src/models/source/kinds/registry.ts";
import { isRemote, publicSource } from "../../src/models/source/parse.ts";
import type { Clock } from "../../src/util/ports.ts";
import { publishView } from "./content/blobs.ts";
import { type Content, forgetFinished } from "./content/finished-downloads.ts";
import { contentKey, fileKey, type StoreLayout, viewKey } from "./content/layout.ts";
import type { ContentOrigins } from "./content/origins.ts";
import type { Ref, RefFile, Refs } from "./content/refs.ts";
import type { ReportBytes, StoreFile } from "./download/context.ts";
import { type ContentRequest, type FetchContent, mayReuseContent } from "./download/fetch-content.ts";
import { type RetryLimits, withRetries } from "./download/retry.ts";
import type { FetchOptions, ModelRequest } from "./types.ts";

export interface ModelFetcher {
  readonly layout: StoreLayout;
  readonly refs: Refs;
  readonly clock: Clock;
  readonly limits: RetryLimits;
  readonly access: Omit<Access, "credentials" | "revision">;
  readonly fetchContent: FetchContent;
  readonly origins: ContentOrigins;
  /** Makes an owner hold content if its blob is stored. */
  readonly take: (owner: string, content: Omit<Content, "sizeBytes">) => Promise<Content | undefined>;
}

/** Downloads missing files. Files that did not change since the last fetch of the source are not fetched again. */
export async function fetchModel(
  source: ModelSource,
  request: ModelRequest,
  options: FetchOptions & { readonly owner: string },
  fetcher: ModelFetcher,
): Promise<Ref> {
  const { signal } = options;
  const run: FetchRun = {
    source: openRemote(source, request, fetcher),
    signal,
    name: publicSource(request.source),
    secret: request.secret,
    tenant: options.tenant ?? "",
    sparesPrefetched: options.sparesPrefetched === true,
    take: (content) => fetcher.take(options.owner, content),
    retry: (send) => withRetries(send, fetcher.limits, { clock: fetcher.clock, signal }),
  };
  const resolved = await run.retry(() => resolveSource(run.source, request, signal));
  await checkMarker(request, resolved, run);
  const listing = toListing(resolved, request);
  const files: RefFile[] = [];
  const progress = sumProgress(listing, options);
  const previous = fetcher.refs
    .all()
    .filter((ref) => ref.source === request.source)
    .reduce<Ref | undefined>((last, ref) => (last && last.fetchedAt > ref.fetchedAt ? last : ref), undefined);
  for (const file of listing.files) {
    const reused = await reusableFile(file, previous, listing, run, fetcher);
    files.push(reused ?? (await fetchFile(file, run, progress.during, fetcher)));
    progress.finished(files.at(-1)?.sizeBytes ?? 0);
  }
  // The content may have changed during the fetch.
  await checkMarker(request, resolved, run);
  return publish(request, listing, files, fetcher);
}

/** Throws SourceRevisionGone if the source no longer has the requested content. */
async function checkMarker(
  { source, changeMarker }: ModelRequest,
  resolved: ResolvedSource,
  run: FetchRun,
): Promise<void> {
  if (changeMarker === undefined) return;
  const now = await run.retry(() => readMark(run.source, resolved, run.signal));
  if (now.changeMarker === changeMarker) return;
  const [required, found] = [changeMarker, now.changeMarker].map((marker) => marker.slice(0, 12));
  throw new MetalbridgeError(
    "SourceRevisionGone",
    `${publicSource(source)} now has content ${found}, but this revision requires ${required}`,
  );
}

async function fetchFile(
  file: StoreFile,
  run: FetchRun,
  onProgress: ReportBytes,
  fetcher: ModelFetcher,
): Promise<RefFile> {
  const { sha256, sizeBytes, validator } = await fetcher.fetchContent(file, { ...run, onProgress });
  const { etag, lastModified } = validator;
  return { name: file.name, sha256, sizeBytes, url: plainUrl(file.url), etag, lastModified };
}

/** The stored file, if it did not change at the source. */
async function reusableFile(
  file: StoreFile,
  previous: Ref | undefined,
  { revision }: Listing,
  run: FetchRun,
  { origins, limits, clock }: ModelFetcher,
): Promise<RefFile | undefined> {
  // Content with a stated checksum is found by its checksum.
  if (file.sha256 !== undefined) return undefined;
  const stored = previous?.files.find(({ name }) => name === file.name);
  if (stored === undefined || plainUrl(file.url) !== stored.url) return undefined;
  const { sha256, sizeBytes } = stored;
  const isCommit = /^[0-9a-f]{40}$/.test(revision ?? "");
  const isReusable = isCommit
    ? previous?.revision === revision &&
      (await mayReuseContent(await origins.of(sha256), file, { ...run, ...limits, clock }))
    : await isUnchangedFile(file, stored, run);
  if (!isReusable) return undefined;
  // No owner held the content until now, so it may have been removed.
  const taken = await run.take({ sha256, validator: {} });
  return taken?.sizeBytes === sizeBytes ? stored : undefined;
}

async function isUnchangedFile(
  { url }: StoreFile,
  { etag, lastModified, sizeBytes }: RefFile,
  { source, signal, retry }: FetchRun,
): Promise<boolean> {
  if (etag === undefined && lastModified === undefined) return false;
  const validator = { etag, lastModified, totalBytes: sizeBytes };
  return retry(() => isUnchanged(source, url, validator, signal));
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
    mmproj: listing.mmproj,
    revision: listing.revision,
  };
  await refs.put(ref);
  for (const file of listing.files) await forgetFinished(layout, contentKey(file));
  return ref;
}

interface FetchRun extends Omit<ContentRequest, "onProgress"> {
  /** Retries a request to the source while its failure is transient. */
  readonly retry: <T>(send: () => Promise<T>) => Promise<T>;
}

interface Listing extends Pick<ResolvedSource, "entry" | "revision"> {
  /** The weights, then the projector. */
  readonly files: readonly StoreFile[];
  /** Name of the projector among `files`. */
  readonly mmproj?: string;
}

/** Opens the source without sending a request. */
export function openRemote(
  source: ModelSource,
  { credentials, revision }: ModelRequest,
  { access }: Pick<ModelFetcher, "access">,
): OpenSource {
  if (!isRemote(source))
    throw new MetalbridgeError("SourceNotSupported", `hosts cannot fetch ${source.kind}:// sources`);
  return openSource(source, { ...access, credentials, revision });
}

/** The checksum of a request applies to the main file. Throws ChecksumMismatch. */
function toListing(resolved: ResolvedSource, { sha256 }: ModelRequest): Listing {
  const { files, projector, format, entry, revision } = resolved;
  const weights = files.filter(({ name }, index) => index === 0 || name !== projector?.name);
  const problem = checksumProblem(weights[0]?.name ?? "", weights[0]?.sha256, sha256);
  if (problem !== undefined) throw problem;
  const all = [...weights, ...(projector === undefined ? [] : [projector])].map((file, index) => {
    const stated = index === 0 && sha256 !== undefined ? sha256.toLowerCase() : file.sha256;
    const isListed = stated !== undefined && stated === file.sha256;
    return { ...file, sha256: stated, isListed, isGguf: format === "gguf" };
  });
  return { files: all, entry, revision, mmproj: projector?.name };
}

function sumProgress(listing: Listing, { onProgress }: FetchOptions) {
  let before = 0;
  const sizes = listing.files.map((file) => file.sizeBytes);
  const known = sizes.every((size) => size !== undefined)
    ? sizes.reduce((sum: number, size) => sum + (size ?? 0), 0)
    : undefined;
  const isSingle = listing.files.length === 1;
  const during: ReportBytes = (bytes, totalBytes, queuedBehind) =>
    onProgress?.({
      bytes: before + bytes,
      totalBytes: isSingle ? (totalBytes ?? known) : known,
      queuedBehind,
    });
  return {
    during,
    finished: (sizeBytes: number) => {
      before += sizeBytes;
    },
  };
}

/**
 * The key of a request in the index: the same source with other files is another model. The checksum is part of the key,
 * because otherwise a request could substitute other content for a source that other requests trust. The Secret is part of
 * the key because it selects the endpoint, and because its content is not for requests that name another Secret.
 */
export function requestKey(request: ModelRequest): string {
  const { source, files = [], mmproj = "", format = "gguf", sha256 = "" } = request;
  const { quantization, revision, changeMarker, secret, ignorePatterns = [] } = request;
  const parts = [source, files, mmproj, format, sha256.toLowerCase()];
  return fileKey(JSON.stringify([...parts, quantization, revision, changeMarker, secret, ...ignorePatterns]));
}
