/** Brings one content to the blobs: found there, or downloaded once for all callers. */
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { plainUrl } from "../../../src/hub/failure.ts";
import { makeFolder } from "../../../src/util/folder.ts";
import type { Log } from "../../../src/util/ports.ts";
import type { DiskAdmission } from "../admission.ts";
import type { RunningFetch } from "../leftovers.ts";
import type { ReceivedFile } from "../remote/attempt.ts";
import { download, runWhenScheduled } from "../remote/download.ts";
import type { DownloadContext, StoreFile } from "../remote/download-context.ts";
import { type DownloadPart, dropPart, type PartMemory, partAt } from "../remote/part.ts";
import type { PeerFetch, PeerFetcher } from "../types.ts";
import type { Usage } from "../usage.ts";
import { blobPath, blobSize, publishBlob } from "./blobs.ts";
import {
  type ContentSharing,
  type GrowingContent,
  keepPrefixes,
  MIN_SHARED_BYTES,
} from "./content-sharing.ts";
import { type Content, findFinished, rememberFinished } from "./finished-downloads.ts";
import { contentKey, listFolder, type StoreLayout } from "./layout.ts";
import { type ContentOrigins, mayReuseContent, type OriginCheck } from "./origins.ts";
import { createSingleFlight } from "./single-flight.ts";

export type FetchContent = (
  file: StoreFile,
  ask: {
    readonly source: DownloadContext["source"];
    /** As `Host.status.models` names it. */
    readonly name: string;
    /** As in `ModelRequest`. */
    readonly secret: string | undefined;
    /** As in `FetchOptions`. */
    readonly tenant: string;
    readonly signal: AbortSignal;
    readonly onProgress: DownloadContext["onProgress"];
    readonly sparesPrefetched: boolean;
    /** Keeps the content for the caller if its blob is there; undefined otherwise. */
    readonly take: (content: Omit<Content, "sizeBytes">) => Promise<Content | undefined>;
  },
) => Promise<Content>;

export type DownloadSettings = Omit<
  DownloadContext,
  "source" | "tenants" | "signal" | "onProgress" | "onStored" | "admit"
>;

export interface Sharing {
  readonly admission: DiskAdmission;
  readonly giving: ContentSharing;
  readonly peers: PeerFetcher | undefined;
  readonly origins: ContentOrigins;
  readonly usage: Pick<Usage, "beginFetch">;
}

export function createFetchContent(
  layout: StoreLayout,
  settings: DownloadSettings,
  { admission, giving, peers, origins, usage }: Sharing,
  mismatch: "keep" | "remove",
): FetchContent {
  const flights = createSingleFlight<Content & { readonly secret: string | undefined }>();
  const join: typeof flights.join = (...run) => {
    const flight = flights.join(...run);
    // Its turn may be there by this caller's namespace.
    if (!flight.isOwn) settings.queue.reconsider();
    return flight;
  };
  const bringOne = async (
    file: StoreFile,
    key: string,
    ask: Parameters<FetchContent>[1],
    running: RunningFetch,
  ): Promise<Content> => {
    for (;;) {
      const present = await findStored(layout, file, key, { ...ask, ...settings, origins });
      if (present !== undefined) return present;
      const flight = join(key, ask, (signal, onProgress, tenants) =>
        fly({ layout, giving, peers, origins, running }, { ...file, source: ask.name }, key, {
          ...settings,
          ...ask,
          signal,
          onProgress,
          tenants,
          admit: admitFor(admission, key, file, ask.sparesPrefetched),
        })
          .then((content) => ({ ...content, secret: ask.secret }))
          .catch((error: unknown) => afterMismatch(layout, file, key, mismatch, settings.log, error))
          .finally(() => admission.done(key)),
      );
      const fetched = await flight.done.catch((error: unknown) => {
        ask.signal.throwIfAborted();
        // Another caller's source or token failed; ours may still be good.
        if (flight.isOwn) throw error;
        return undefined;
      });
      // What other credentials opened is stored content for this request, which may or may not have it.
      const isGiven = flight.isOwn || fetched?.secret === ask.secret;
      const kept = fetched === undefined || !isGiven ? undefined : await ask.take(fetched);
      if (kept !== undefined) return kept;
    }
  };
  return async (file, ask) => {
    const key = contentKey(file);
    const running = usage.beginFetch(key);
    try {
      return await bringOne(file, key, ask, running);
    } finally {
      running.end();
    }
  };
}

async function findStored(
  layout: StoreLayout,
  file: StoreFile,
  key: string,
  ask: OriginCheck & Pick<Parameters<FetchContent>[1], "take"> & { readonly origins: ContentOrigins },
): Promise<Content | undefined> {
  const { sha256 } = file;
  if (sha256 === undefined) {
    const known = await findFinished(layout, file, key, ask);
    return known && ask.take(known);
  }
  if ((await blobSize(layout, sha256)) === undefined) return undefined;
  const isGiven = await mayReuseContent(await ask.origins.of(sha256), file, ask);
  return isGiven ? ask.take({ sha256, validator: {} }) : undefined;
}

function admitFor(
  admission: DiskAdmission,
  key: string,
  file: StoreFile,
  sparesPrefetched: boolean,
): DownloadContext["admit"] {
  return (neededBytes) => admission.admit(key, file.name, neededBytes, sparesPrefetched);
}

async function fly(
  {
    layout,
    giving,
    peers,
    origins,
    running,
  }: Pick<Sharing, "giving" | "peers" | "origins"> & {
    readonly layout: StoreLayout;
    readonly running: RunningFetch;
  },
  file: StoreFile & { readonly source: string },
  key: string,
  context: DownloadContext,
): Promise<Content> {
  const part = partAt(layout.partial, key);
  const shared = isShared(file) ? file : undefined;
  const address = plainUrl(file.url);
  const isPublic = !context.source.hasCredentials;
  let growth: GrowingContent | undefined;
  let isPublished = false;
  try {
    const received = await runWhenScheduled(file, context, () => {
      const from = { sources: [file.source], addresses: [address], isPublic };
      growth = shared && giving.grow(shared.sha256, part.path, from);
      const flight = shared && growth && peers?.begin(shared, growth.since);
      return bring(file, part, { ...context, onStored: growth?.stored }, flight);
    });
    const { sha256, sizeBytes, validator } = received;
    await origins.note(sha256, address, isPublic);
    if ((await blobSize(layout, sha256)) === undefined) {
      running.publish(sha256);
      await keepPrefixes(layout, sha256, received);
      await publishBlob(layout, sha256, part.path);
      const path = blobPath(layout, sha256);
      context.log.info({ file: file.name, sha256, path }, "model file stored");
    }
    isPublished = true;
    if (file.sha256 === undefined) await rememberFinished(layout, key, { sha256, sizeBytes, validator });
    await dropPart(part);
    return { sha256, sizeBytes, validator };
  } finally {
    growth?.end(isPublished);
  }
}

/** The origin decides what the content is; without a checksum of it nothing that a peer gives can be judged. */
function isShared<T extends StoreFile>(file: T): file is T & { readonly sha256: string } {
  const isLarge = file.sizeBytes === undefined || file.sizeBytes >= MIN_SHARED_BYTES;
  return file.sha256 !== undefined && isLarge;
}

/** From peers while they are the better choice, else from the origin. */
async function bring(
  file: StoreFile,
  part: DownloadPart,
  context: DownloadContext,
  flight: PeerFetch | undefined,
): Promise<ReceivedFile> {
  const memory: PartMemory = { sizeBytes: 0 };
  if (flight === undefined) return download(file, part, context, memory);
  try {
    for (;;) {
      const taken = await flight.take(part, context, memory);
      if (taken !== undefined) return taken;
      const origin = flight.whileOrigin();
      const signal = AbortSignal.any([context.signal, origin.signal]);
      const onReceived = (bytes: number): void => {
        origin.received(bytes);
        context.onReceived?.(bytes);
      };
      try {
        return await download(file, part, { ...context, signal, onReceived }, memory);
      } catch (error) {
        context.signal.throwIfAborted();
        if (!origin.signal.aborted && !origin.isDispensable(error)) throw error;
      } finally {
        origin.end();
      }
    }
  } finally {
    flight.end();
  }
}

const SET_ASIDE = "download-";

/** A download with the wrong checksum is kept for inspection, in place of the one before it: never served, removed by the sweep. */
async function afterMismatch(
  layout: StoreLayout,
  file: StoreFile,
  key: string,
  mismatch: "keep" | "remove",
  log: Log,
  error: unknown,
): Promise<never> {
  if (!(error instanceof MetalbridgeError) || error.code !== "ChecksumMismatch") throw error;
  const part = partAt(layout.partial, key);
  const name = `${SET_ASIDE}${file.sha256?.toLowerCase()}`;
  if (mismatch === "keep") {
    await makeFolder(layout.quarantine);
    for (const other of await listFolder(layout.quarantine))
      if (other.startsWith(SET_ASIDE)) await rm(join(layout.quarantine, other), { force: true });
    await rename(part.path, join(layout.quarantine, name));
  }
  await dropPart(part);
  if (mismatch === "remove") throw error;
  const place = `quarantine/${name}`;
  log.warn(
    { file: file.name, place, code: error.code },
    `${error.message}; moved the download to quarantine`,
  );
  const message = `${error.message}; the download is kept as ${place} in the model store`;
  throw new MetalbridgeError(error.code, message, error.remedy, { cause: error });
}
