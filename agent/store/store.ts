/** Opens the model store: content-addressed blobs, refs by source, views for engines, and local files that are used in place. */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { HttpRules } from "../../src/hub/client.ts";
import { transient } from "../../src/hub/failure.ts";
import { parseSource, publicSource } from "../../src/models/source/parse.ts";
import { isoSeconds } from "../../src/util/iso-seconds.ts";
import { blobPath, blobSize, publishView, removeBlob, sweepFacts } from "./content/blobs.ts";
import { type ContentSharing, createContentSharing } from "./content/content-sharing.ts";
import {
  createDiskAdmission,
  createSpaceReader,
  type DiskAdmission,
  type UnevictableModels,
} from "./content/disk.ts";
import { makeFolders, type StoreLayout, storeLayoutOf } from "./content/layout.ts";
import { type ContentOrigins, createOrigins } from "./content/origins.ts";
import { openRefs, type Ref, type Refs } from "./content/refs.ts";
import { openSpeeds, type Speeds } from "./content/speeds.ts";
import { createFetchContent } from "./download/fetch-content.ts";
import { createDownloadQueue, createRateLimiter } from "./download/host-limits.ts";
import { fetchModel, type ModelFetcher, openRemote, requestKey } from "./fetch-model.ts";
import { type ChecksumMemory, checkChecksum, findInPlace, knownChecksum, verifyInPlace } from "./in-place.ts";
import { createInspector } from "./inspect.ts";
import { type ModelRetention, openModelRetention } from "./model-retention.ts";
import type {
  ModelRequest,
  ModelStore,
  RemovalResult,
  StoredModel,
  StoredModelInfo,
  StoreLimits,
  StoreOptions,
} from "./types.ts";
import { createUsage, describeRef, sizeOfContents, type Usage } from "./usage.ts";
import { openVerification, type Verification } from "./verification.ts";

const DEFAULT_LIMITS: StoreLimits = {
  stallMs: 30_000,
  connectMs: 10_000,
  attempts: 5,
  firstBackoffMs: 500,
  maxRedirects: 10,
  downloads: 8,
  bytesPerSecond: undefined,
  connections: 4,
  segmentBytes: 64 << 20,
  shareAboveMs: 10_000,
};
/** The time of the last use is written to disk at most this often. */
const USE_STEP_MS = 3_600_000;

export async function openStore(options: StoreOptions): Promise<ModelStore> {
  const { clock, log, isReadOnly = false } = options;
  const layout = storeLayoutOf(options.dir);
  if (!isReadOnly) await makeFolders(layout);
  const refs = await openRefs(layout.refs, log, isReadOnly);
  const retention = await openModelRetention(layout.pins, log);
  const usage = createUsage(layout, refs, retention, log);
  const { quarantine } = usage;
  const verification = await openVerification({ layout, refs, quarantine, clock, log, isReadOnly });
  const speeds = await openSpeeds(layout.speeds, log);
  if (!isReadOnly) {
    await usage.sweep(clock.nowMs());
    await sweepFacts(layout);
  }
  let quotaBytes = options.quotaBytes;
  const readSpace = createSpaceReader(options.dir, options.capacityWithPurging);
  const admission = createDiskAdmission({
    readSpace,
    reserveBytes: options.reserveBytes,
    quotaBytes: () => quotaBytes,
    usedBytes: usage.usedBytes,
    makeRoom: async (bytes, sparesPrefetched) => {
      const mayEvict = (ref: Ref) => !(sparesPrefetched && retention.isPrefetched(ref));
      await usage.makeRoom(bytes, { mayEvict, allOrNothing: true, keepsBlobs: options.neverEvicts });
    },
    unevictable: () => unevictableModels(refs, usage, retention),
  });
  const origins = createOrigins(layout);
  const sharing = createContentSharing(layout, refs, origins, clock);
  sharing.onOffers(() => options.onOffers?.());
  const fetcher = createFetcher(options, layout, refs, { admission, usage, sharing, origins });
  return {
    ...createReaders(options, fetcher, usage),
    contents: sharing,
    reconnect: () => {
      const reason = transient("SourceUnreachable", "the network changed or the machine slept; reconnecting");
      for (const end of [...(fetcher.access.rules.underWay ?? [])]) end(reason);
    },
    list: () => describeModels(refs, usage, retention, verification, speeds),
    pin: retention.pin,
    unpin: retention.unpin,
    declare: retention.declare,
    verify: verification.verify,
    noteSpeed: speeds.note,
    inspect: createInspector(),
    hold: usage.hold,
    release: usage.release,
    evictFirst: (request) => forgetUse(refs, request),
    remove: (source, fetchedBy) => {
      const isRequested = (ref: Ref) =>
        publicSource(ref.source) === publicSource(source) && !(ref.fetchedAt > (fetchedBy ?? ref.fetchedAt));
      return removeRefs(refs.all().filter(isRequested), usage, retention);
    },
    // An unlimited amount removes everything that may be evicted.
    clean: () =>
      usage.makeRoom(Number.POSITIVE_INFINITY, { mayEvict: (ref) => !retention.isPrefetched(ref) }),
    collect: async () => {
      const { freeBytes } = await readSpace(options.reserveBytes);
      const overQuota = quotaBytes === undefined ? 0 : (await usage.usedBytes()) - quotaBytes;
      const excess = Math.max(options.reserveBytes - freeBytes, overQuota);
      return excess > 0 ? usage.makeRoom(excess) : [];
    },
    setQuota: (bytes) => {
      quotaBytes = bytes;
    },
    disk: async () => {
      const [storeBytes, unfinishedBytes] = await Promise.all([usage.usedBytes(), usage.unfinishedBytes()]);
      return { ...(await readSpace(options.reserveBytes)), storeBytes, unfinishedBytes, quotaBytes };
    },
  };
}

async function forgetUse(refs: Refs, request: ModelRequest): Promise<void> {
  const ref = refs.get(requestKey(request));
  if (ref !== undefined) await refs.put({ ...ref, lastUsedMs: 0 });
}

async function removeRefs(
  found: readonly Ref[],
  usage: Usage,
  retention: ModelRetention,
): Promise<RemovalResult> {
  if (found.length === 0) return { at: "absent" };
  if (found.some(retention.isPinned)) return { at: "pinned" };
  const owners = [...new Set(found.flatMap(usage.ownersOf))];
  if (owners.length > 0) return { at: "inUse", owners };
  const before = await usage.usedBytes();
  for (const ref of found)
    if (!(await usage.removeRef(ref))) return { at: "inUse", owners: usage.ownersOf(ref) };
  return { at: "removed", sizeBytes: Math.max(0, before - (await usage.usedBytes())) };
}

function unevictableModels(refs: Refs, usage: Usage, retention: ModelRetention): UnevictableModels {
  const inUse = refs.all().filter(usage.isInUse);
  const pinned = refs.all().filter((ref) => retention.isPinned(ref) && !usage.isInUse(ref));
  return { inUse: inUse.length, pinned: pinned.length, bytes: sizeOfContents([...inUse, ...pinned]) };
}

async function describeModels(
  refs: Refs,
  usage: Usage,
  retention: ModelRetention,
  verification: Verification,
  speeds: Speeds,
): Promise<readonly StoredModelInfo[]> {
  const verified = await verification.describe();
  return refs.all().map((ref) => {
    const { isDamaged: damaged, verifiedMs } = verified(ref);
    const info = describeRef(ref, { inUse: usage.isInUse(ref), pinned: retention.isPinned(ref), damaged });
    const verifiedAt = verifiedMs === undefined ? undefined : isoSeconds(verifiedMs);
    return { ...info, verifiedAt, tokensPerSecond: speeds.of(info.sha256) };
  });
}

function createFetcher(
  options: StoreOptions,
  layout: StoreLayout,
  refs: Refs,
  parts: {
    readonly admission: DiskAdmission;
    readonly usage: Usage;
    readonly sharing: ContentSharing;
    readonly origins: ContentOrigins;
  },
): ModelFetcher {
  const { clock, log, onReceived, peers, allowLoopback = false, allowPrivate = false } = options;
  const { hfEndpoint, ollamaRegistry, machineCredentials, allowedHosts, allowedNetworks } = options;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const { bytesPerSecond, downloads } = limits;
  const underWay: HttpRules["underWay"] = new Set();
  const rules = { allowLoopback, allowPrivate, allowedHosts, allowedNetworks, ...limits, underWay };
  const { beginFetch, take } = parts.usage;
  const mismatch = options.neverEvicts === true ? "remove" : "keep";
  const fetchContent = createFetchContent(
    { ...parts, layout, beginFetch, mismatch, peers },
    {
      clock,
      log,
      onReceived,
      attempts: limits.attempts,
      firstBackoffMs: limits.firstBackoffMs,
      ranges: limits,
      pace: bytesPerSecond === undefined ? undefined : createRateLimiter(bytesPerSecond, clock),
      queue: createDownloadQueue(downloads, Math.floor(downloads / 2)),
      // After a reboot, bytes that were not synced may be holes.
      boot: options.bootId ?? randomUUID(),
    },
  );
  return {
    layout,
    refs,
    clock,
    limits,
    access: { rules, hfEndpoint, ollamaRegistry, machineCredentials },
    fetchContent,
    origins: parts.origins,
    take: (owner, content) =>
      take(owner, async () => {
        const sizeBytes = await blobSize(layout, content.sha256);
        return sizeBytes === undefined ? undefined : { ...content, sizeBytes, contents: [content.sha256] };
      }),
  };
}

/** The endpoint that the Secret or this machine selects may have changed since the fetch. The Secret of stored content is not read. */
function isFromCurrentEndpoint({ files }: Ref, request: ModelRequest, fetcher: ModelFetcher): boolean {
  if (request.secret !== undefined && request.credentials === undefined) return true;
  const { holds } = openRemote(parseSource(request.source), request, fetcher);
  return files.every(({ url }) => holds(url));
}

function createReaders(
  { allowedRoots, isReadOnly = false }: StoreOptions,
  fetcher: ModelFetcher,
  usage: Usage,
): Pick<ModelStore, "resolve" | "fetch"> {
  const checksums: ChecksumMemory = new Map();
  const find = async (request: ModelRequest, owner: string): Promise<Ref | undefined> => {
    const found = await usage.take(owner, async () => {
      const ref = await usableRef(fetcher, request, isReadOnly);
      return ref && { ref, contents: ref.files.map(({ sha256 }) => sha256) };
    });
    return found?.ref;
  };
  return {
    resolve: async (request, owner, { keepsUse = false } = {}) => {
      const source = parseSource(request.source);
      if (source.kind === "file") {
        const model = await findInPlace(source.path, request, allowedRoots);
        return withKnownChecksum(model, request, checksums);
      }
      const ref = await (owner === undefined
        ? usableRef(fetcher, request, isReadOnly)
        : find(request, owner));
      return ref && use(fetcher, ref, isReadOnly || keepsUse);
    },
    fetch: async (request, fetchOptions) => {
      const source = parseSource(request.source);
      if (source.kind === "file") {
        const model = await findInPlace(source.path, request, allowedRoots);
        if (request.sha256 === undefined) return model;
        return verifyInPlace(model, request.sha256, checksums, fetchOptions);
      }
      const { owner = randomUUID() } = fetchOptions;
      try {
        let ref = await find(request, owner);
        if (ref === undefined) {
          await makeFolders(fetcher.layout);
          ref = await fetchModel(source, request, { ...fetchOptions, owner }, fetcher);
        }
        return await use(fetcher, ref, isReadOnly);
      } finally {
        if (fetchOptions.owner === undefined) usage.release(owner);
      }
    },
  };
}

/** The ref of a request if its checksum matches and every file is complete. A damaged view or index entry is repaired. */
async function usableRef(
  fetcher: ModelFetcher,
  request: ModelRequest,
  isReadOnly: boolean,
): Promise<Ref | undefined> {
  const { layout, refs } = fetcher;
  const ref = refs.get(requestKey(request));
  if (ref === undefined || !isFromCurrentEndpoint(ref, request, fetcher)) return undefined;
  if (request.sha256 !== undefined && ref.files[0]?.sha256 !== request.sha256.toLowerCase()) return undefined;
  for (const file of ref.files) {
    const sizeBytes = await blobSize(layout, file.sha256);
    if (sizeBytes === file.sizeBytes) continue;
    // Otherwise a damaged blob would count as the content of its checksum.
    if (sizeBytes !== undefined && !isReadOnly) await removeBlob(layout, file.sha256);
    return undefined;
  }
  if (isReadOnly) return ref;
  await makeFolders(layout);
  await publishView(layout, ref.view, ref.files);
  await refs.repair(ref);
  return ref;
}

async function use({ layout, refs, clock }: ModelFetcher, ref: Ref, keepsUse: boolean): Promise<StoredModel> {
  const nowMs = clock.nowMs();
  if (!keepsUse && nowMs - ref.lastUsedMs >= USE_STEP_MS) await refs.put({ ...ref, lastUsedMs: nowMs });
  const view = join(layout.views, ref.view);
  const [first] = ref.files;
  if (first === undefined) throw new MetalbridgeError("SourceNotFound", `${ref.source} names no file`);
  return {
    path: ref.entry === "" ? view : join(view, ref.entry),
    mmprojPath: ref.mmproj === undefined ? undefined : join(view, ref.mmproj),
    sizeBytes: ref.files.reduce((sum, file) => sum + file.sizeBytes, 0),
    sha256: first.sha256,
    revision: ref.revision,
    files: ref.files.map(({ name, sizeBytes, sha256 }) => ({
      name,
      path: blobPath(layout, sha256),
      sizeBytes,
      sha256,
      isProjector: name === ref.mmproj ? true : undefined,
    })),
  };
}

/** Undefined if the current content of the file was not hashed yet. Throws ChecksumMismatch for a wrong checksum. */
async function withKnownChecksum(
  model: StoredModel,
  request: ModelRequest,
  checksums: ChecksumMemory,
): Promise<StoredModel | undefined> {
  if (request.sha256 === undefined) return model;
  const sha256 = await knownChecksum(model.path, checksums);
  if (sha256 === undefined) return undefined;
  checkChecksum(model.path, sha256, request.sha256);
  return { ...model, sha256 };
}
