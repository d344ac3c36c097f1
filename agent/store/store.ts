/** Opens the model store: content-addressed blobs, refs by source, views for engines, files of the host used in place. */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { HttpRules } from "../../src/hub/client.ts";
import { transient } from "../../src/hub/failure.ts";
import type { ModelSource } from "../../src/models/source/kinds/registry.ts";
import { parseSource, publicSource } from "../../src/models/source/parse.ts";
import { isoSeconds } from "../../src/util/iso-seconds.ts";
import { blobPath, blobSize, publishView, removeBlob, sweepFacts } from "./content/blobs.ts";
import { type ContentSharing, createContentSharing } from "./content/content-sharing.ts";
import {
  createDiskAdmission,
  createSpaceReader,
  type DiskAdmission,
  type ReadSpace,
  type UnevictableModels,
} from "./content/disk.ts";
import { makeFolders, type StoreLayout, storeLayoutOf } from "./content/layout.ts";
import { createOrigins } from "./content/origins.ts";
import { openSpeeds, type Speeds } from "./content/speeds.ts";
import { createFetchContent } from "./download/fetch-content.ts";
import { createDownloadQueue, createRateLimiter } from "./download/host-limits.ts";
import { fetchModel, type ModelFetcher, openRemote, requestKey } from "./fetch-model.ts";
import { type ChecksumMemory, checkChecksum, findInPlace, knownChecksum, verifyInPlace } from "./in-place.ts";
import { createInspector } from "./inspect.ts";
import { type ModelRetention, openModelRetention } from "./model-retention.ts";
import { openRefs, type Ref, type Refs } from "./refs.ts";
import type {
  DiskReading,
  FetchOptions,
  ModelRequest,
  ModelStore,
  RemovalResult,
  StoredModel,
  StoredModelInfo,
  StoreLimits,
  StoreOptions,
} from "./types.ts";
import { createUsage, describeRef, type Usage } from "./usage.ts";
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
/** Use is written to disk at most this often. */
const USE_STEP_MS = 3_600_000;

export async function openStore(options: StoreOptions): Promise<ModelStore> {
  const { clock, log, isReadOnly = false } = options;
  const layout = storeLayoutOf(options.dir);
  if (!isReadOnly) await makeFolders(layout);
  const refs = await openRefs(layout.refs, log, isReadOnly);
  const keeping = await openModelRetention(layout.pins, log);
  const usage = createUsage(layout, refs, keeping, log);
  const { quarantine } = usage;
  const verification = await openVerification({ layout, refs, quarantine, clock, log, isReadOnly });
  const speeds = await openSpeeds(layout.speeds, log);
  if (!isReadOnly) await usage.sweep(clock.nowMs()).then(() => sweepFacts(layout));
  let quotaBytes = options.quotaBytes;
  const readSpace = createSpaceReader(options.dir, options.capacityWithPurging);
  const admission = createDiskAdmission({
    readSpace,
    reserveBytes: options.reserveBytes,
    quotaBytes: () => quotaBytes,
    usedBytes: usage.usedBytes,
    makeRoom: async (bytes, sparesPrefetched) => {
      const mayGo = (ref: Ref) => !(sparesPrefetched && keeping.isPrefetched(ref));
      await usage.makeRoom(bytes, { mayGo, allOrNothing: true, keepsBlobs: options.neverEvicts === true });
    },
    kept: () => keptOf(refs, usage, keeping),
  });
  const sharing = createContentSharing(layout, refs, clock);
  sharing.onOffers(() => options.onOffers?.());
  const fetcher = createFetcher(options, layout, refs, { admission, usage, sharing });
  return {
    ...createReaders(options, fetcher, usage),
    contents: sharing,
    reconnect: () => {
      const reason = transient("SourceUnreachable", "the network changed or the machine slept; reconnecting");
      for (const end of [...(fetcher.access.rules.underWay ?? [])]) end(reason);
    },
    list: () => describeModels(refs, usage, keeping, verification, speeds),
    pin: keeping.pin,
    unpin: keeping.unpin,
    declare: keeping.declare,
    verify: verification.verify,
    noteSpeed: speeds.note,
    inspect: createInspector(),
    hold: usage.hold,
    release: usage.release,
    remove: (source, fetchedBy) => {
      const isMeant = (ref: Ref) =>
        publicSource(ref.source) === publicSource(source) && !(ref.fetchedAt > (fetchedBy ?? ref.fetchedAt));
      return removeRefs(refs.all().filter(isMeant), usage, keeping);
    },
    // More than there is: everything that may go does.
    clean: () => usage.makeRoom(Number.POSITIVE_INFINITY, { mayGo: (ref) => !keeping.isPrefetched(ref) }),
    collect: async () => {
      const { freeBytes } = await readSpace(options.reserveBytes);
      const overQuota = quotaBytes === undefined ? 0 : (await usage.usedBytes()) - quotaBytes;
      const excess = Math.max(options.reserveBytes - freeBytes, overQuota);
      return excess > 0 ? usage.makeRoom(excess) : [];
    },
    setQuota: (bytes) => {
      quotaBytes = bytes;
    },
    disk: () => readDisk(readSpace(options.reserveBytes), usage.usedBytes(), quotaBytes),
  };
}

async function readDisk(
  space: ReturnType<ReadSpace>,
  used: Promise<number>,
  quotaBytes: number | undefined,
): Promise<DiskReading> {
  return { ...(await space), storeBytes: await used, quotaBytes };
}

type Keep = Pick<ModelRetention, "isPinned" | "isPrefetched">;

async function removeRefs(found: readonly Ref[], usage: Usage, keeping: Keep): Promise<RemovalResult> {
  if (found.length === 0) return { at: "absent" };
  if (found.some(keeping.isPinned)) return { at: "pinned" };
  const owners = [...new Set(found.flatMap(usage.ownersOf))];
  if (owners.length > 0) return { at: "inUse", owners };
  const before = await usage.usedBytes();
  for (const ref of found)
    if (!(await usage.removeRef(ref))) return { at: "inUse", owners: usage.ownersOf(ref) };
  return { at: "removed", sizeBytes: Math.max(0, before - (await usage.usedBytes())) };
}

/** What cannot be evicted, for the message of a full disk. */
function keptOf(refs: Refs, usage: Usage, keeping: Keep): UnevictableModels {
  const kept = refs.all().filter((ref) => usage.isInUse(ref) || keeping.isPinned(ref));
  const contents = new Map(
    kept.flatMap(({ files }) => files.map(({ sha256, sizeBytes }) => [sha256, sizeBytes])),
  );
  const bytes = [...contents.values()].reduce((sum, size) => sum + size, 0);
  const pinned = kept.filter((ref) => keeping.isPinned(ref) && !usage.isInUse(ref)).length;
  return { inUse: kept.length - pinned, pinned, bytes };
}

async function describeModels(
  refs: Refs,
  usage: Usage,
  keeping: Keep,
  verification: Verification,
  speeds: Speeds,
): Promise<readonly StoredModelInfo[]> {
  const verified = await verification.describe();
  return refs.all().map((ref) => {
    const { isDamaged: damaged, verifiedMs } = verified(ref);
    const info = describeRef(ref, { inUse: usage.isInUse(ref), pinned: keeping.isPinned(ref), damaged });
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
  },
): ModelFetcher {
  const { clock, log, onReceived, peers, allowLoopback = false, allowPrivate = false } = options;
  const { hfEndpoint, ollamaRegistry, machineCredentials, allowedHosts, allowedNetworks } = options;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const { bytesPerSecond, downloads } = limits;
  const underWay: HttpRules["underWay"] = new Set();
  const rules = { allowLoopback, allowPrivate, allowedHosts, allowedNetworks, ...limits, underWay };
  const origins = createOrigins(layout, refs);
  const { beginFetch, take } = parts.usage;
  const mismatch = options.neverEvicts === true ? "remove" : "keep";
  const fetchContent = createFetchContent(
    { ...parts, layout, beginFetch, origins, mismatch, peers },
    {
      clock,
      log,
      onReceived,
      attempts: limits.attempts,
      firstBackoffMs: limits.firstBackoffMs,
      ranges: limits,
      pace: bytesPerSecond === undefined ? undefined : createRateLimiter(bytesPerSecond, clock),
      queue: createDownloadQueue(downloads, Math.floor(downloads / 2)),
      // After a boot, bytes that were not synced may be holes.
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
    origins,
    take: (owner, content) =>
      take(owner, async () => {
        const sizeBytes = await blobSize(layout, content.sha256);
        return sizeBytes === undefined ? undefined : { ...content, sizeBytes, contents: [content.sha256] };
      }),
  };
}

interface Readable {
  readonly layout: StoreLayout;
  readonly refs: Refs;
  readonly isReadOnly: boolean;
  readonly isOfOrigin: (ref: Ref, request: ModelRequest) => boolean;
}

/** What an earlier version stored may be from an endpoint that another Secret chose. A Secret is not read for what is stored. */
function isFromPresentEndpoint({ files }: Ref, request: ModelRequest, fetcher: ModelFetcher): boolean {
  if (request.secret !== undefined && request.credentials === undefined) return true;
  const { holds } = openRemote(parseSource(request.source), request, fetcher);
  return files.every(({ url }) => holds(url));
}

function createReaders(
  { allowedRoots, clock, isReadOnly = false }: StoreOptions,
  fetcher: ModelFetcher,
  usage: Usage,
): Pick<ModelStore, "resolve" | "fetch"> {
  const isOfOrigin = (ref: Ref, request: ModelRequest): boolean =>
    isFromPresentEndpoint(ref, request, fetcher);
  const readable = { ...fetcher, isReadOnly, isOfOrigin };
  const checksums: ChecksumMemory = new Map();
  const find = async (request: ModelRequest, owner: string): Promise<Ref | undefined> => {
    const found = await usage.take(owner, async () => {
      const ref = await usableRef(readable, request);
      return ref === undefined ? undefined : { ref, contents: ref.files.map(({ sha256 }) => sha256) };
    });
    return found?.ref;
  };
  const fetchRemote = async (
    source: ModelSource,
    request: ModelRequest,
    fetchOptions: FetchOptions & { readonly owner: string },
  ): Promise<StoredModel> => {
    const stored = await find(request, fetchOptions.owner);
    if (stored !== undefined) return use(readable, stored, clock.nowMs());
    await makeFolders(fetcher.layout);
    return use(readable, await fetchModel(source, request, fetchOptions, fetcher), clock.nowMs());
  };
  return {
    resolve: async (request, owner) => {
      const source = parseSource(request.source);
      if (source.kind === "file") {
        const model = await findInPlace(source.path, request, allowedRoots);
        return withKnownChecksum(model, request, checksums);
      }
      const ref = await (owner === undefined ? usableRef(readable, request) : find(request, owner));
      return ref && use(readable, ref, clock.nowMs());
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
        return await fetchRemote(source, request, { ...fetchOptions, owner });
      } finally {
        if (fetchOptions.owner === undefined) usage.release(owner);
      }
    },
  };
}

/** The ref of a request if it has the stated checksum and every file is there whole; what only its view or index lost is repaired. */
async function usableRef(
  { layout, refs, isReadOnly, isOfOrigin }: Readable,
  request: ModelRequest,
): Promise<Ref | undefined> {
  const ref = refs.get(requestKey(request));
  if (ref === undefined || !isOfOrigin(ref, request)) return undefined;
  if (request.sha256 !== undefined && ref.files[0]?.sha256 !== request.sha256.toLowerCase()) return undefined;
  for (const file of ref.files) {
    const sizeBytes = await blobSize(layout, file.sha256);
    if (sizeBytes === file.sizeBytes) continue;
    // A damaged blob would otherwise count as the content of its checksum.
    if (sizeBytes !== undefined && !isReadOnly) await removeBlob(layout, file.sha256);
    return undefined;
  }
  if (isReadOnly) return ref;
  await makeFolders(layout);
  await publishView(layout, ref.view, ref.files);
  await refs.repair(ref);
  return ref;
}

async function use({ layout, refs, isReadOnly }: Readable, ref: Ref, nowMs: number): Promise<StoredModel> {
  if (!isReadOnly && nowMs - ref.lastUsedMs >= USE_STEP_MS) await refs.put({ ...ref, lastUsedMs: nowMs });
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

/** In place, a stated checksum that was not computed for the file as it is now means: not verified yet. Throws for a wrong one. */
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
