/** Fetches a whole remote model: lists its files, brings each to the blobs, then publishes the view and the ref. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import { plainUrl } from "../../src/hub/failure.ts";
import { readMark } from "../../src/hub/inspect/change-marker.ts";
import { openSource } from "../../src/hub/inspect/open.ts";
import { type ResolvedSource, resolveSource } from "../../src/hub/inspect/resolve.ts";
import type { Access, OpenSource } from "../../src/hub/remote-source.ts";
import { isUnchanged } from "../../src/hub/validator.ts";
import type { ModelSource } from "../../src/models/source/kinds/registry.ts";
import { isRemote, publicSource } from "../../src/models/source/parse.ts";
import type { Clock } from "../../src/util/ports.ts";
import { publishView } from "./content/blobs.ts";
import { type Content, forgetFinished } from "./content/finished-downloads.ts";
import { contentKey, fileKey, type StoreLayout, viewKey } from "./content/layout.ts";
import type { ContentOrigins } from "./content/origins.ts";
import type { ReportBytes, StoreFile } from "./download/context.ts";
import { type ContentAsk, type FetchContent, mayReuseContent } from "./download/fetch-content.ts";
import { type RetryLimits, withRetries } from "./download/retry.ts";
import type { Ref, RefFile, Refs } from "./refs.ts";
import type { FetchOptions, ModelRequest } from "./types.ts";

export interface ModelFetcher {
  readonly layout: StoreLayout;
  readonly refs: Refs;
  readonly clock: Clock;
  readonly limits: RetryLimits;
  readonly access: Omit<Access, "credentials" | "revision">;
  readonly fetchContent: FetchContent;
  readonly origins: ContentOrigins;
  /** Puts content that is on disk into use by an owner. */
  readonly take: (owner: string, content: Omit<Content, "sizeBytes">) => Promise<Content | undefined>;
}

/** Downloads what is missing; files that are as in the content that the source had last are not fetched again. */
export async function fetchModel(
  source: ModelSource,
  request: ModelRequest,
  options: FetchOptions,
  fetcher: ModelFetcher,
): Promise<Ref> {
  const { signal } = options;
  const owner = options.owner ?? "";
  const ask: Ask = {
    source: openRemote(source, request, fetcher),
    signal,
    name: publicSource(request.source),
    secret: request.secret,
    tenant: options.tenant ?? "",
    sparesPrefetched: options.sparesPrefetched === true,
    take: (content) => fetcher.take(owner, content),
  };
  const resolve = () => resolveSource(ask.source, request, signal);
  const resolved = await withRetries(resolve, fetcher.limits, { ...fetcher, signal });
  await checkMarker(request, resolved, ask, fetcher);
  const listing = toListing(resolved, request);
  const files: RefFile[] = [];
  const progress = sumProgress(listing, options);
  const before = fetcher.refs
    .all()
    .filter((ref) => ref.source === request.source)
    .reduce<Ref | undefined>((last, ref) => (last && last.fetchedAt > ref.fetchedAt ? last : ref), undefined);
  for (const file of listing.files) {
    const kept = await keptFile(file, before, listing, ask, fetcher);
    files.push(kept ?? (await fetchFile(file, ask, progress.during, fetcher)));
    progress.finished(files.at(-1)?.sizeBytes ?? 0);
  }
  // It may have changed while it was fetched.
  await checkMarker(request, resolved, ask, fetcher);
  return publish(request, listing, files, fetcher);
}

/** Throws SourceRevisionGone where the source has other content than the one that is asked for. */
async function checkMarker(
  { source, changeMarker }: ModelRequest,
  resolved: ResolvedSource,
  ask: Ask,
  fetcher: ModelFetcher,
): Promise<void> {
  if (changeMarker === undefined) return;
  const read = () => readMark(ask.source, resolved, ask.signal);
  const now = await withRetries(read, fetcher.limits, { ...fetcher, signal: ask.signal });
  if (now.changeMarker === changeMarker) return;
  const [wanted, found] = [changeMarker, now.changeMarker].map((marker) => marker.slice(0, 12));
  throw new MetalbridgeError(
    "SourceRevisionGone",
    `${publicSource(source)} has content ${found} now, and this revision was made for ${wanted}`,
  );
}

async function fetchFile(
  file: StoreFile,
  ask: Ask,
  onProgress: ReportBytes,
  fetcher: ModelFetcher,
): Promise<RefFile> {
  const { sha256, sizeBytes, validator } = await fetcher.fetchContent(file, { ...ask, onProgress });
  const { etag, lastModified } = validator;
  return { name: file.name, sha256, sizeBytes, url: plainUrl(file.url), etag, lastModified };
}

/** The file as it is stored, if the source has the same one. */
async function keptFile(
  file: StoreFile,
  before: Ref | undefined,
  listing: Listing,
  ask: Ask,
  fetcher: ModelFetcher,
): Promise<RefFile | undefined> {
  // What is stored under a checksum is found by that.
  if (file.sha256 !== undefined) return undefined;
  const old = before?.files.find((candidate) => candidate.name === file.name);
  if (old === undefined || !(await isStillThere(file, old, before, listing, ask, fetcher))) return undefined;
  // It was not held until now, so it may have been removed.
  const kept = await ask.take({ sha256: old.sha256, validator: {} });
  return kept?.sizeBytes === old.sizeBytes ? old : undefined;
}

/** A known commit decides; otherwise the source is asked. */
async function isStillThere(
  file: StoreFile,
  old: RefFile,
  before: Ref | undefined,
  listing: Listing,
  { source, signal }: Ask,
  fetcher: ModelFetcher,
): Promise<boolean> {
  if (plainUrl(file.url) !== old.url) return false;
  if (listing.revision !== undefined && /^[0-9a-f]{40}$/.test(listing.revision)) {
    if (before?.revision !== listing.revision) return false;
    const origin = await fetcher.origins.of(old.sha256);
    return mayReuseContent(origin, file, { ...fetcher.limits, clock: fetcher.clock, source, signal });
  }
  if (old.etag === undefined && old.lastModified === undefined) return false;
  const validator = { etag: old.etag, lastModified: old.lastModified, totalBytes: old.sizeBytes };
  const isSame = () => isUnchanged(source, file.url, validator, signal);
  return withRetries(isSame, fetcher.limits, { ...fetcher, signal });
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

type Ask = Omit<ContentAsk, "onProgress">;

interface Listing extends Pick<ResolvedSource, "entry" | "revision"> {
  /** The weights, then the projector. */
  readonly files: readonly StoreFile[];
  /** Name of the projector among `files`. */
  readonly mmproj?: string;
}

/** Sends nothing yet. */
export function openRemote(
  source: ModelSource,
  { credentials, revision }: ModelRequest,
  { access }: Pick<ModelFetcher, "access">,
): OpenSource {
  if (!isRemote(source))
    throw new MetalbridgeError("SourceNotSupported", `hosts cannot fetch ${source.kind}:// sources`);
  return openSource(source, { ...access, credentials, revision });
}

/** A stated checksum is that of the main file. */
function toListing(resolved: ResolvedSource, { sha256 }: ModelRequest): Listing {
  const { files, projector, format, entry, revision } = resolved;
  const weights = files.filter(({ name }, index) => index === 0 || name !== projector?.name);
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
 * What a request is filed under: the same source with other files is another model. A stated checksum is part of it,
 * or a request with the checksum of other content could substitute it for a source that others trust. So is the Secret: it
 * chooses the endpoint, and what it opens is not for those who name another one.
 */
export function requestKey(request: ModelRequest): string {
  const { source, files = [], mmproj = "", format = "gguf", sha256 = "" } = request;
  const { quantization, revision, changeMarker, secret } = request;
  // Absent ones add nothing: what earlier versions stored keeps its key.
  const marked = changeMarker === undefined ? [] : [changeMarker];
  const isPlain = quantization === undefined && revision === undefined && changeMarker === undefined;
  const chosen = isPlain ? [] : [quantization, revision, ...marked];
  const asker = secret === undefined ? [] : [{ secret }];
  return fileKey(JSON.stringify([source, files, mmproj, format, sha256.toLowerCase(), ...chosen, ...asker]));
}
