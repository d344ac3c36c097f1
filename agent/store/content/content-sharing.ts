/** What this host can give to other hosts: its blobs, and what it is fetching as far as it has come. */
import { type FileHandle, open, stat } from "node:fs/promises";
import { join } from "node:path";
import { publicSource } from "../../../src/models/source/parse.ts";
import { systemCode, writeFileAtomic } from "../../../src/util/atomic-file.ts";
import type { Clock } from "../../../src/util/ports.ts";
import type { Refs } from "../refs.ts";
import { blobPath, blobSize } from "./blobs.ts";
import type { StoreLayout } from "./layout.ts";
import { createOrigins, type Origin } from "./origins.ts";
import { CHUNK_BYTES, type PrefixHash } from "./prefix-hash.ts";

/** One content, read in chunks of `CHUNK_BYTES`. */
export interface SharedContent {
  readonly open: () => Promise<FileHandle>;
  /** Undefined while the origin has not said. */
  readonly totalBytes: () => number | undefined;
  /** Bytes from the start that are there and hashed. */
  readonly available: () => number;
  /** SHA-256 of everything up to the end of a chunk that is available. */
  readonly prefix: (chunk: number) => Promise<string | undefined>;
  /** Calls back when there is more, or none will come; the result ends it. */
  readonly onMore: (listener: () => void) => () => void;
  /** The download ended without the content. */
  readonly isOver: () => boolean;
}

/** What `Host.status.peer.offers` says. */
export interface ContentOffer {
  readonly sha256: string;
  readonly since: string;
  readonly complete?: boolean;
}

/** What decides to whom a content may be given. */
export interface Provenance extends Origin {
  /** Sources of models, without credentials. */
  readonly sources: readonly string[];
}

export interface ContentLookup {
  readonly find: (sha256: string) => Promise<SharedContent | undefined>;
  readonly provenance: (sha256: string) => Promise<Provenance>;
  readonly offers: () => readonly ContentOffer[];
}

/** What a download has from the start of its content, without holes, hashed and written. */
export interface Stored {
  readonly hash: PrefixHash;
  readonly bytes: number;
  readonly totalBytes: number | undefined;
}

/** One content while it is fetched. */
export interface GrowingContent {
  readonly since: string;
  readonly stored: (stored: Stored) => void;
  readonly end: (isPublished: boolean) => void;
}

export interface ContentSharing extends ContentLookup {
  readonly grow: (sha256: string, path: string, from: Provenance) => GrowingContent;
  /** Called whenever `offers` changes. */
  readonly onOffers: (listener: () => void) => void;
}

/** Smaller content costs the origin little. */
export const MIN_SHARED_BYTES = 4 * CHUNK_BYTES;
/** Afterwards the model is complete, and `Host.status.models` lists it. */
const OFFERED_MS = 600_000;
const MAX_OFFERS = 64;
const HEX = 64;

interface Growing {
  readonly since: string;
  readonly path: string;
  readonly from: Provenance;
  totalBytes?: number | undefined;
  bytes: number;
  prefixes: readonly string[];
  doneAtMs?: number;
  isOver: boolean;
  readonly listeners: Set<() => void>;
}

export function createContentSharing(
  layout: StoreLayout,
  refs: Pick<Refs, "all">,
  clock: Clock,
): ContentSharing {
  const origins = createOrigins(layout, refs);
  const growing = new Map<string, Growing>();
  let onOffers = (): void => undefined;
  return {
    onOffers: (listener) => {
      onOffers = listener;
    },
    grow: (sha256, path, from) => {
      const listeners = new Set<() => void>();
      const since = new Date(clock.nowMs()).toISOString();
      const growth: Growing = { since, path, from, bytes: 0, prefixes: [], isOver: false, listeners };
      growing.set(sha256, growth);
      onOffers();
      const notify = (): void => {
        for (const listener of [...listeners]) listener();
      };
      return {
        since,
        stored: ({ hash, bytes, totalBytes }) => {
          growth.bytes = bytes;
          growth.totalBytes = totalBytes;
          growth.prefixes = hash.prefixes;
          notify();
        },
        end: (isPublished) => {
          if (isPublished) growth.doneAtMs = clock.monotonicMs();
          else growth.isOver = true;
          notify();
          if (!isPublished && growing.get(sha256) === growth) growing.delete(sha256);
          onOffers();
        },
      };
    },
    offers: () => {
      for (const [sha256, { doneAtMs }] of growing)
        if (doneAtMs !== undefined && clock.monotonicMs() - doneAtMs > OFFERED_MS) growing.delete(sha256);
      return [...growing].slice(-MAX_OFFERS).map(([sha256, { since, doneAtMs }]) => ({
        sha256,
        since,
        complete: doneAtMs === undefined ? undefined : true,
      }));
    },
    find: async (sha256) => {
      const growth = growing.get(sha256);
      return growth === undefined || growth.doneAtMs !== undefined
        ? storedContent(layout, sha256)
        : growingContent(growth, blobPath(layout, sha256));
    },
    provenance: async (sha256) => {
      const growth = growing.get(sha256);
      if (growth !== undefined && growth.doneAtMs === undefined) return growth.from;
      const named = refs.all().filter(({ files }) => files.some((file) => file.sha256 === sha256));
      // A part of a model that is not complete has no ref yet.
      const sources = [...named.map(({ source }) => publicSource(source)), ...(growth?.from.sources ?? [])];
      return { ...(await origins.of(sha256)), sources };
    },
  };
}

function growingContent(growth: Growing, blob: string): SharedContent {
  return {
    open: () =>
      open(growth.path).catch((error: unknown) => {
        // It was published a moment ago.
        if (systemCode(error) === "ENOENT") return open(blob);
        throw error;
      }),
    totalBytes: () => growth.totalBytes,
    available: () => {
      const { bytes, prefixes, totalBytes } = growth;
      const chunks = Math.min(Math.floor(bytes / CHUNK_BYTES), prefixes.length);
      const isWhole = bytes === totalBytes && chunks === Math.floor(totalBytes / CHUNK_BYTES);
      return isWhole ? bytes : chunks * CHUNK_BYTES;
    },
    prefix: async (chunk) => growth.prefixes[chunk],
    onMore: (listener) => {
      growth.listeners.add(listener);
      return () => growth.listeners.delete(listener);
    },
    isOver: () => growth.isOver,
  };
}

/** Undefined for content that is not here, or that was stored without its digests. */
async function storedContent(layout: StoreLayout, sha256: string): Promise<SharedContent | undefined> {
  const sizeBytes = await blobSize(layout, sha256);
  if (sizeBytes === undefined) return undefined;
  const digests = await stat(prefixesPath(layout, sha256)).catch(() => undefined);
  if (digests?.size !== Math.floor(sizeBytes / CHUNK_BYTES) * HEX) return undefined;
  return {
    open: () => open(blobPath(layout, sha256)),
    totalBytes: () => sizeBytes,
    available: () => sizeBytes,
    prefix: (chunk) => readPrefix(layout, sha256, chunk),
    onMore: () => () => undefined,
    isOver: () => false,
  };
}

/** Before the blob is published, so that no blob is without them. */
export async function keepPrefixes(
  layout: StoreLayout,
  sha256: string,
  { sizeBytes, prefixes }: { readonly sizeBytes: number; readonly prefixes: readonly string[] },
): Promise<void> {
  if (sizeBytes < MIN_SHARED_BYTES) return;
  await writeFileAtomic(prefixesPath(layout, sha256), prefixes.join(""));
}

async function readPrefix(layout: StoreLayout, sha256: string, chunk: number): Promise<string | undefined> {
  try {
    const file = await open(prefixesPath(layout, sha256));
    try {
      const { bytesRead, buffer } = await file.read(Buffer.alloc(HEX), 0, HEX, chunk * HEX);
      return bytesRead === HEX ? buffer.toString("latin1") : undefined;
    } finally {
      await file.close();
    }
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

function prefixesPath(layout: StoreLayout, sha256: string): string {
  return join(layout.prefixes, sha256);
}
