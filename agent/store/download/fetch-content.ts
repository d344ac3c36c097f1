/** Fetches one content: finds its blob, or downloads it once for all callers. */
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { plainUrl, SourceFailure } from "../../../src/hub/failure.ts";
import type { OpenSource } from "../../../src/hub/remote-source.ts";
import { isUnchanged, readValidator, type Validator } from "../../../src/hub/validator.ts";
import type { Clock } from "../../../src/util/ports.ts";
import { blobSize } from "../content/blobs.ts";
import { type Content, readFinished } from "../content/finished-downloads.ts";
import { contentKey, type StoreLayout } from "../content/layout.ts";
import type { Origin } from "../content/origins.ts";
import type { DownloadSettings, ReportBytes, StoreFile } from "./context.ts";
import { type DownloadStore, downloadContent } from "./download.ts";
import { type RetryLimits, withRetries } from "./retry.ts";

export type FetchContent = (file: StoreFile, request: ContentRequest) => Promise<Content>;

export interface ContentRequest {
  readonly source: OpenSource;
  /** The model's source in `Host.status.models`. */
  readonly name: string;
  /** `ModelRequest.secret`. */
  readonly secret: string | undefined;
  /** `FetchOptions.tenant`. */
  readonly tenant: string;
  readonly signal: AbortSignal;
  readonly onProgress: ReportBytes;
  readonly sparesPrefetched: boolean;
  /** Makes the caller hold the content if its blob exists; undefined otherwise. */
  readonly take: (content: Omit<Content, "sizeBytes">) => Promise<Content | undefined>;
}

/** Protects the part of a key, and the contents that are published under it, from removal until `end`. */
export type BeginFetch = (key: string) => {
  /** Must be called before the blob exists. */
  readonly publish: (sha256: string) => void;
  /** Must be called once the caller holds the content. */
  readonly end: () => void;
};

export function createFetchContent(
  store: DownloadStore & { readonly beginFetch: BeginFetch },
  settings: DownloadSettings,
): FetchContent {
  const downloads = createSingleFlight<Content & { readonly secret: string | undefined }, ContentRequest>();
  const join = (
    file: StoreFile,
    key: string,
    request: ContentRequest,
    onPublish: (sha256: string) => void,
  ) => {
    const joined = downloads.join(key, request, async (signal, callers) => {
      const { source, name, sparesPrefetched, secret } = request;
      const download = { key, file, source, name, sparesPrefetched, signal, onPublish };
      const content = await downloadContent(
        {
          ...settings,
          ...download,
          tenants: () => [...callers].map(({ tenant }) => tenant),
          onProgress: (...progress) => {
            for (const { onProgress } of callers) onProgress(...progress);
          },
        },
        store,
      );
      return { ...content, secret };
    });
    // This caller's namespace may have a free download slot.
    if (!joined.isOwn) settings.queue.reconsider();
    return joined;
  };
  return async (file, request) => {
    const key = contentKey(file);
    const fetch = store.beginFetch(key);
    try {
      for (;;) {
        const stored = await findStored(file, key, { ...request, ...settings }, store);
        const reused = stored && (await request.take(stored));
        if (reused !== undefined) return reused;
        const { done, isOwn } = join(file, key, request, fetch.publish);
        const fetched = await done.catch((error: unknown) => {
          request.signal.throwIfAborted();
          // Another caller's source or token failed; this caller's may work.
          if (isOwn) throw error;
          return undefined;
        });
        // Content fetched with other credentials is stored content for this request: the next pass checks its access.
        const isAuthorized = isOwn || fetched?.secret === request.secret;
        const taken = fetched && isAuthorized ? await request.take(fetched) : undefined;
        if (taken !== undefined) return taken;
      }
    } finally {
      fetch.end();
    }
  };
}

/** Stored content that the request may use. */
async function findStored(
  file: StoreFile,
  key: string,
  check: OriginCheck,
  { layout, origins }: Pick<DownloadStore, "layout" | "origins">,
): Promise<Omit<Content, "sizeBytes"> | undefined> {
  const { sha256 } = file;
  if (sha256 === undefined) return findFinished(layout, file, key, check);
  if ((await blobSize(layout, sha256)) === undefined) return undefined;
  const isAuthorized = await mayReuseContent(await origins.of(sha256), file, check);
  return isAuthorized ? { sha256, validator: {} } : undefined;
}

/** The content of a finished download, if it is still stored and did not change at the source. */
async function findFinished(
  layout: StoreLayout,
  file: StoreFile,
  key: string,
  { source, signal }: OriginCheck,
): Promise<Content | undefined> {
  const known = await readFinished(layout, key);
  if (known === undefined || (await blobSize(layout, known.sha256)) !== known.sizeBytes) return undefined;
  try {
    return (await isUnchanged(source, file.url, known.validator, signal)) ? known : undefined;
  } catch (error) {
    // Without an answer, the download itself reports the failure.
    if (error instanceof SourceFailure) return undefined;
    throw error;
  }
}

export interface OriginCheck extends RetryLimits {
  readonly source: OpenSource;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/**
 * Content that required credentials is reused only if the origin accepts the credentials of this request, and only for the
 * same file or for a file of the same source that lists this checksum. A checksum in a request for another source proves nothing.
 */
export async function mayReuseContent(
  { isPublic, addresses }: Origin,
  file: Pick<StoreFile, "url" | "isListed">,
  check: OriginCheck,
): Promise<boolean> {
  if (isPublic) return true;
  const isSame = addresses.includes(plainUrl(file.url));
  if (!isSame && !(file.isListed && addresses.some(check.source.holds))) return false;
  return (await readFromOrigin(file, check)) !== undefined;
}

/** The validator of the file at its origin; undefined if the origin refuses or does not answer. The download then reports the failure. */
export async function readFromOrigin(
  { url }: { readonly url: URL },
  check: OriginCheck,
): Promise<Validator | undefined> {
  const { source, signal } = check;
  try {
    const found = await withRetries(() => readValidator(source, url, signal), check, check);
    return found === "notModified" ? {} : found;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof MetalbridgeError) return undefined;
    throw error;
  }
}

interface SingleFlight<T, Caller extends { readonly signal: AbortSignal }> {
  /** `isOwn`: this call started the run. */
  readonly join: (
    key: string,
    caller: Caller,
    start: (signal: AbortSignal, callers: ReadonlySet<Caller>) => Promise<T>,
  ) => { readonly done: Promise<T>; readonly isOwn: boolean };
}

interface Run<T, Caller> {
  readonly done: Promise<T>;
  readonly callers: Set<Caller>;
  readonly controller: AbortController;
}

/** Allows one run per key at a time. Later callers join it, and it is aborted once its last caller has left. */
function createSingleFlight<T, Caller extends { readonly signal: AbortSignal }>(): SingleFlight<T, Caller> {
  const runs = new Map<string, Run<T, Caller>>();
  /** Abandoned runs that have not closed their files yet. The next run of the key waits for them. */
  const stopping = new Map<string, Promise<unknown>>();
  const abandon = (key: string, run: Run<T, Caller>, reason: unknown): void => {
    // The run is removed from the map immediately, so that no new caller joins a run that is stopping.
    if (runs.get(key) !== run) return;
    runs.delete(key);
    const stopped = run.done
      .catch(() => undefined)
      .finally(() => {
        if (stopping.get(key) === stopped) stopping.delete(key);
      });
    stopping.set(key, stopped);
    run.controller.abort(reason);
  };
  return {
    join: (key, caller, start) => {
      const existing = runs.get(key);
      const run = existing ?? launch(start, stopping.get(key));
      run.callers.add(caller);
      if (existing === undefined) {
        runs.set(key, run);
        const forget = (): void => {
          if (runs.get(key) === run) runs.delete(key);
        };
        run.done.then(forget, forget);
      }
      const done = untilAborted(run.done, caller.signal).finally(() => {
        run.callers.delete(caller);
        if (run.callers.size === 0) abandon(key, run, caller.signal.reason);
      });
      return { done, isOwn: existing === undefined };
    },
  };
}

function launch<T, Caller>(
  start: (signal: AbortSignal, callers: ReadonlySet<Caller>) => Promise<T>,
  before: Promise<unknown> | undefined,
): Run<T, Caller> {
  const controller = new AbortController();
  const callers = new Set<Caller>();
  const run = async (): Promise<T> => {
    await before;
    return start(controller.signal, callers);
  };
  return { done: run(), callers, controller };
}

/** Rejects with the signal's reason when it is aborted first. */
async function untilAborted<T>(done: Promise<T>, signal: AbortSignal): Promise<T> {
  let leave = (): void => undefined;
  const left = new Promise<never>((_, reject) => {
    leave = () => reject(signal.reason);
    if (signal.aborted) leave();
    else signal.addEventListener("abort", leave, { once: true });
  });
  try {
    return await Promise.race([done, left]);
  } finally {
    signal.removeEventListener("abort", leave);
  }
}
