/** Runs the download of one content, with the effect of each state in `states.ts`. */
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { permanent, plainUrl, SourceFailure, transient } from "../../../src/hub/failure.ts";
import { listFolder, makeFolder } from "../../../src/util/folder.ts";
import { blobPath, blobSize, publishBlob } from "../content/blobs.ts";
import {
  type ContentSharing,
  type GrowingContent,
  MIN_SHARED_BYTES,
  writePrefixes,
} from "../content/content-sharing.ts";
import type { DiskAdmission } from "../content/disk.ts";
import { type Content, rememberFinished } from "../content/finished-downloads.ts";
import type { StoreLayout } from "../content/layout.ts";
import type { ContentOrigins } from "../content/origins.ts";
import type { DownloadContext, OriginPhase, PeerFetch, PeerFetcher, StoreFile } from "./context.ts";
import { type DownloadPart, dropPart, openPart, partAt, truncateIfDiskFull } from "./part.ts";
import { receiveFile } from "./receive.ts";
import { pauseBeforeRetryMs, waitBeforeRetry } from "./retry.ts";
import { type DownloadEvent, type DownloadState, nextState } from "./states.ts";

/** The parts of a store that its downloads use. */
export interface DownloadStore {
  readonly layout: StoreLayout;
  readonly admission: DiskAdmission;
  readonly sharing: ContentSharing;
  readonly peers: PeerFetcher | undefined;
  readonly origins: ContentOrigins;
  /** A download with the wrong checksum is quarantined (keep) or removed. */
  readonly mismatch: "keep" | "remove";
}

export interface Download extends Omit<DownloadContext, "admit" | "onStored"> {
  readonly key: string;
  readonly file: StoreFile;
  /** The Model's source, without credentials. */
  readonly name: string;
  readonly sparesPrefetched: boolean;
  /** Called before the blob exists. */
  readonly onPublish: (sha256: string) => void;
}

/** A download in progress, with the resources that it holds until it ends. */
interface Run {
  readonly download: Download;
  readonly store: DownloadStore;
  readonly part: DownloadPart;
  readonly context: DownloadContext;
  leaveQueue?: () => void;
  /** The bytes that other hosts may download. */
  growth?: GrowingContent | undefined;
  peers?: PeerFetch | undefined;
  /** Set while the source serves the bytes, including all retries. */
  phase?: OriginPhase | undefined;
  /** Bytes stored by the last attempt at the source. */
  highestBytes: number;
}

/** Downloads the content to its blob. Throws MetalbridgeError, or the signal's reason. */
export async function downloadContent(download: Download, store: DownloadStore): Promise<Content> {
  const { key, file, sparesPrefetched, attempts } = download;
  const run: Run = {
    download,
    store,
    part: partAt(store.layout.partial, key),
    context: {
      ...download,
      admit: (neededBytes) => store.admission.admit(key, file.name, neededBytes, sparesPrefetched),
      onStored: (stored) => run.growth?.stored(stored),
    },
    highestBytes: 0,
  };
  let state: DownloadState = { at: "queued" };
  try {
    while (state.at !== "done" && state.at !== "failed")
      state = nextState(state, await runState(run, state), attempts);
  } finally {
    run.phase?.end();
    run.peers?.end();
    run.leaveQueue?.();
    run.growth?.end(state.at === "done");
    if (state.at !== "failed") store.admission.done(key);
  }
  if (state.at === "done") return state.content;
  // Only now is the part no longer offered to other hosts.
  try {
    throw await quarantineMismatch(run, state.error);
  } finally {
    store.admission.done(key);
  }
}

function runState(
  run: Run,
  state: Exclude<DownloadState, { readonly at: "done" | "failed" }>,
): Promise<DownloadEvent> {
  switch (state.at) {
    case "queued":
      return waitForPlace(run);
    case "peers":
      return takeFromPeers(run);
    case "source":
      return whileSourceIsBetter(run, (signal) => requestSource(run, signal));
    case "backoff":
      return whileSourceIsBetter(run, (signal) => backOff(run, state, signal));
    case "verifying":
      return verify(run, state);
    case "exhausted":
      return Promise.resolve({ on: mayPeersHelp(run, state.error) ? "usePeers" : "ended" });
    case "publishing":
      return publish(run, state);
  }
}

/** True if peers have become the better choice, or if a comparison with them is in progress. */
function mayPeersHelp({ phase }: Run, error: MetalbridgeError): boolean {
  return phase?.signal.aborted === true || phase?.isDispensable(error) === true;
}

/** Waits in the queue. Peers are used only with a checksum from the origin, because otherwise their bytes cannot be verified. */
async function waitForPlace(run: Run): Promise<DownloadEvent> {
  const { download, store, part, context } = run;
  const { file, name, source } = download;
  run.leaveQueue = await context.queue.enter(context.tenants, context.signal, (before) =>
    context.onProgress(0, file.sizeBytes, before),
  );
  const { sha256, sizeBytes = MIN_SHARED_BYTES } = file;
  if (sha256 === undefined || sizeBytes < MIN_SHARED_BYTES) return { on: "started", hasPeers: false };
  const from = { sources: [name], addresses: [plainUrl(file.url)], isPublic: !source.hasCredentials };
  run.growth = store.sharing.grow(sha256, part.path, from);
  run.peers = store.peers?.begin({ ...file, sha256, source: name }, run.growth.since);
  return { on: "started", hasPeers: run.peers !== undefined };
}

async function takeFromPeers(run: Run): Promise<DownloadEvent> {
  run.phase?.end();
  run.phase = undefined;
  const received = await run.peers?.take(run.part, run.context);
  return received === undefined ? { on: "useSource" } : { on: "received", received, from: "peers" };
}

/** Runs `work` with a signal that is aborted once peers are the better choice. */
async function whileSourceIsBetter(
  run: Run,
  work: (signal: AbortSignal) => Promise<DownloadEvent>,
): Promise<DownloadEvent> {
  const { signal } = run.context;
  signal.throwIfAborted();
  run.phase ??= run.peers?.whileOrigin();
  const { phase } = run;
  try {
    return await work(phase === undefined ? signal : AbortSignal.any([signal, phase.signal]));
  } catch (error) {
    signal.throwIfAborted();
    if (phase?.signal.aborted === true) return { on: "usePeers" };
    if (error instanceof SourceFailure || error instanceof MetalbridgeError) return { on: "failed", error };
    throw error;
  }
}

async function requestSource(run: Run, signal: AbortSignal): Promise<DownloadEvent> {
  const { download, part, context, phase } = run;
  run.highestBytes = 0;
  const received = await receiveFile(download.file, part, {
    ...context,
    signal,
    onReceived: (bytes) => {
      phase?.received(bytes);
      context.onReceived?.(bytes);
    },
    onProgress: (bytes, totalBytes) => {
      run.highestBytes = Math.max(run.highestBytes, bytes);
      context.onProgress(bytes, totalBytes);
    },
  });
  return { on: "received", received, from: "source" };
}

async function backOff(
  { download, context, highestBytes }: Run,
  { failures, failure }: Extract<DownloadState, { at: "backoff" }>,
  signal: AbortSignal,
): Promise<DownloadEvent> {
  const waitMs = pauseBeforeRetryMs(failures, context.firstBackoffMs, failure.retryAfterMs);
  context.log.warn(
    { url: plainUrl(download.file.url), code: failure.error.code, bytes: highestBytes, waitMs },
    `download interrupted: ${failure.message}; retrying`,
  );
  await waitBeforeRetry(waitMs, { clock: context.clock, signal });
  return { on: "elapsed" };
}

async function verify(
  { download: { file }, part, context, peers }: Run,
  { received, from }: Extract<DownloadState, { at: "verifying" }>,
): Promise<DownloadEvent> {
  const { sizeBytes, validator, isOneResponse } = received;
  const opened = await openPart(part, file, context);
  try {
    await opened.file.datasync();
    if (opened.sizeBytes !== sizeBytes) {
      const message = `${file.name}: ${opened.sizeBytes} of ${sizeBytes} received bytes are on the disk`;
      return { on: "failed", error: transient("SourceTruncated", message) };
    }
    const sha256 = opened.hash.digest();
    const expected = file.sha256?.toLowerCase() ?? sha256;
    if (from === "peers") peers?.verified(sha256 === expected);
    if (sha256 === expected)
      return { on: "verified", content: { sha256, sizeBytes, validator }, prefixes: opened.hash.prefixes };
    const message = `${file.name} has sha256 ${sha256}, expected ${expected}`;
    if (isOneResponse) return { on: "failed", error: permanent("ChecksumMismatch", message) };
    await opened.file.truncate(0);
    opened.hash.reset();
    return from === "peers"
      ? { on: "usePeers" }
      : { on: "failed", error: transient("ChecksumMismatch", message) };
  } catch (error) {
    // Some file systems report a full disk only here.
    throw await truncateIfDiskFull(error, opened, part, file);
  } finally {
    await opened.file.close();
  }
}

async function publish(
  { download, store, part, context }: Run,
  { content, prefixes }: Extract<DownloadState, { at: "publishing" }>,
): Promise<DownloadEvent> {
  const { layout, origins } = store;
  const { key, file, source, onPublish } = download;
  const { sha256, sizeBytes } = content;
  await origins.note(sha256, plainUrl(file.url), !source.hasCredentials);
  if ((await blobSize(layout, sha256)) === undefined) {
    onPublish(sha256);
    await writePrefixes(layout, sha256, { sizeBytes, prefixes });
    await publishBlob(layout, sha256, part.path);
    const path = blobPath(layout, sha256);
    context.log.info({ file: file.name, sha256, path }, "model file stored");
  }
  if (file.sha256 === undefined) await rememberFinished(layout, key, content);
  await dropPart(part);
  return { on: "published" };
}

const MISMATCH_PREFIX = "download-";

/** Moves a download with the wrong checksum to quarantine for inspection, where it replaces the previous one. The sweep removes it. */
async function quarantineMismatch(
  { download: { file }, store: { layout, mismatch }, part, context: { log } }: Run,
  error: MetalbridgeError,
): Promise<MetalbridgeError> {
  if (error.code !== "ChecksumMismatch") return error;
  if (mismatch === "remove") {
    await dropPart(part);
    return error;
  }
  const name = `${MISMATCH_PREFIX}${file.sha256?.toLowerCase()}`;
  await makeFolder(layout.quarantine);
  for (const other of await listFolder(layout.quarantine))
    if (other.startsWith(MISMATCH_PREFIX)) await rm(join(layout.quarantine, other), { force: true });
  await rename(part.path, join(layout.quarantine, name));
  await dropPart(part);
  const place = `quarantine/${name}`;
  log.warn(
    { file: file.name, place, code: error.code },
    `${error.message}; moved the download to quarantine`,
  );
  const message = `${error.message}; the download is kept as ${place} in the model store`;
  return new MetalbridgeError(error.code, message, error.remedy, { cause: error });
}
