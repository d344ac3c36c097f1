/** The contents that this host serves to other hosts: its blobs, and the parts of downloads in progress. */
import { type FileHandle, open, stat } from "node:fs/promises";
import { join } from "node:path";
import { publicSource } from "../../../src/models/source/parse.ts";
import { ifExists, writeFileAtomic } from "../../../src/util/atomic-file.ts";
import type { Clock } from "../../../src/util/ports.ts";
import { blobPath, blobSize } from "./blobs.ts";
import type { StoreLayout } from "./layout.ts";
import type { ContentOrigins, Origin } from "./origins.ts";
import { CHUNK_BYTES, type PrefixHash } from "./prefix-hash.ts";
import type { Refs } from "./refs.ts";

/** One content, read in chunks of `CHUNK_BYTES`. */
export interface SharedContent {
  readonly open: () => Promise<FileHandle>;
  /** Undefined until the origin has reported the size. */
  readonly totalBytes: () => number | undefined;
  /** Number of bytes from the start that are stored and hashed. */
  readonly available: () => number;
  /** SHA-256 of all bytes up to the end of an available chunk. */
  readonly prefix: (chunk: number) => Promise<string | undefined>;
  /** Calls the listener when more bytes are available or the download has stopped. The result unsubscribes. */
  readonly onMore: (listener: () => void) => () => void;
  /** The download ended without the content. */
  readonly isAborted: () => boolean;
}

/** One entry of `Host.status.peer.offers`. */
export interface ContentOffer {
  readonly sha256: string;
  readonly since: string;
  readonly complete?: boolean;
}

/** Determines which hosts may download a content. */
export interface Provenance extends Origin {
  /** Sources of the models with this content, without credentials. */
  readonly sources: readonly string[];
}

export interface ContentLookup {
  readonly find: (sha256: string) => Promise<SharedContent | undefined>;
  readonly provenance: (sha256: string) => Promise<Provenance>;
  readonly offers: () => readonly ContentOffer[];
}

/** The contiguous start of a content that a download has hashed and written. */
export interface Stored {
  readonly hash: PrefixHash;
  readonly bytes: number;
  readonly totalBytes: number | undefined;
}

/** One content during its download. */
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
/** Complete contents are offered for this long. After that, `Host.status.models` lists the complete model. */
const OFFERED_MS = 600_000;
const MAX_OFFERS = 64;
/** Length of a digest in hex. */
const DIGEST_LENGTH = 64;

interface Growing {
  readonly since: string;
  readonly path: string;
  readonly from: Provenance;
  totalBytes?: number | undefined;
  bytes: number;
  prefixes: readonly string[];
  doneAtMs?: number;
  isAborted: boolean;
  readonly listeners: Set<() => void>;
}

export function createContentSharing(
  layout: StoreLayout,
  refs: Refs,
  origins: ContentOrigins,
  clock: Clock,
): ContentSharing {
  const growing = new Map<string, Growing>();
  let onOffers = (): void => undefined;
  return {
    onOffers: (listener) => {
      onOffers = listener;
    },
    grow: (sha256, path, from) => {
      const listeners = new Set<() => void>();
      const since = new Date(clock.nowMs()).toISOString();
      const growth: Growing = { since, path, from, bytes: 0, prefixes: [], isAborted: false, listeners };
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
          else growth.isAborted = true;
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
      // A file of an incomplete model has no ref yet.
      const sources = [...named.map(({ source }) => publicSource(source)), ...(growth?.from.sources ?? [])];
      return { ...(await origins.of(sha256)), sources };
    },
  };
}

function growingContent(growth: Growing, blob: string): SharedContent {
  return {
    // The part no longer exists if it was published a moment ago.
    open: async () => (await ifExists(open(growth.path))) ?? open(blob),
    totalBytes: () => growth.totalBytes,
    available: () => {
      const { bytes, prefixes, totalBytes } = growth;
      const chunks = Math.min(Math.floor(bytes / CHUNK_BYTES), prefixes.length);
      const isComplete = bytes === totalBytes && chunks === Math.floor(totalBytes / CHUNK_BYTES);
      return isComplete ? bytes : chunks * CHUNK_BYTES;
    },
    prefix: async (chunk) => growth.prefixes[chunk],
    onMore: (listener) => {
      growth.listeners.add(listener);
      return () => growth.listeners.delete(listener);
    },
    isAborted: () => growth.isAborted,
  };
}

/** Undefined for content that is not stored, or that was stored without its digests. */
async function storedContent(layout: StoreLayout, sha256: string): Promise<SharedContent | undefined> {
  const sizeBytes = await blobSize(layout, sha256);
  if (sizeBytes === undefined) return undefined;
  const digests = await stat(prefixesPath(layout, sha256)).catch(() => undefined);
  if (digests?.size !== Math.floor(sizeBytes / CHUNK_BYTES) * DIGEST_LENGTH) return undefined;
  return {
    open: () => open(blobPath(layout, sha256)),
    totalBytes: () => sizeBytes,
    available: () => sizeBytes,
    prefix: (chunk) => readPrefix(layout, sha256, chunk),
    onMore: () => () => undefined,
    isAborted: () => false,
  };
}

/** Must run before the blob is published, so that every blob has its prefixes. */
export async function writePrefixes(
  layout: StoreLayout,
  sha256: string,
  { sizeBytes, prefixes }: { readonly sizeBytes: number; readonly prefixes: readonly string[] },
): Promise<void> {
  if (sizeBytes < MIN_SHARED_BYTES) return;
  await writeFileAtomic(prefixesPath(layout, sha256), prefixes.join(""));
}

async function readPrefix(layout: StoreLayout, sha256: string, chunk: number): Promise<string | undefined> {
  const file = await ifExists(open(prefixesPath(layout, sha256)));
  try {
    const digest = Buffer.alloc(DIGEST_LENGTH);
    const read = await file?.read(digest, 0, DIGEST_LENGTH, chunk * DIGEST_LENGTH);
    return read?.bytesRead === DIGEST_LENGTH ? digest.toString("latin1") : undefined;
  } finally {
    await file?.close();
  }
}

function prefixesPath(layout: StoreLayout, sha256: string): string {
  return join(layout.prefixes, sha256);
}
