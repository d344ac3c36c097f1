/** Brings one content to the blobs: found there, or downloaded once for all callers. */
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { plainUrl, SourceFailure } from "../../../src/hub/failure.ts";
import type { OpenSource } from "../../../src/hub/remote-source.ts";
import type { Validator } from "../../../src/hub/validator.ts";
import { isUnchanged, readValidator } from "../../../src/hub/validator.ts";
import type { Clock } from "../../../src/util/ports.ts";
import { blobSize } from "../content/blobs.ts";
import { type Content, readFinished } from "../content/finished-downloads.ts";
import { contentKey, type StoreLayout } from "../content/layout.ts";
import type { Origin } from "../content/origins.ts";
import type { DownloadSettings, ReportBytes, StoreFile } from "./context.ts";
import { type DownloadStore, downloadContent } from "./download.ts";
import { type RetryLimits, withRetries } from "./retry.ts";
import { createSingleFlight } from "./single-flight.ts";

export type FetchContent = (file: StoreFile, ask: ContentAsk) => Promise<Content>;

export interface ContentAsk {
  readonly source: OpenSource;
  /** As `Host.status.models` names it. */
  readonly name: string;
  /** As in `ModelRequest`. */
  readonly secret: string | undefined;
  /** As in `FetchOptions`. */
  readonly tenant: string;
  readonly signal: AbortSignal;
  readonly onProgress: ReportBytes;
  readonly sparesPrefetched: boolean;
  /** Keeps the content for the caller if its blob is there; undefined otherwise. */
  readonly take: (content: Omit<Content, "sizeBytes">) => Promise<Content | undefined>;
}

/** Keeps the part of a key, and what its callers publish. */
export type BeginFetch = (key: string) => {
  /** Before the blob is there. */
  readonly publish: (sha256: string) => void;
  /** Once its caller holds the content. */
  readonly end: () => void;
};

export function createFetchContent(
  store: DownloadStore & { readonly beginFetch: BeginFetch },
  settings: DownloadSettings,
): FetchContent {
  const flights = createSingleFlight<Content & { readonly secret: string | undefined }, ContentAsk>();
  const join = (file: StoreFile, key: string, ask: ContentAsk, onPublish: (sha256: string) => void) => {
    const flight = flights.join(key, ask, async (signal, callers) => {
      const { source, name, sparesPrefetched, secret } = ask;
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
    // Its turn may be there by this caller's namespace.
    if (!flight.isOwn) settings.queue.reconsider();
    return flight;
  };
  return async (file, ask) => {
    const key = contentKey(file);
    const fetch = store.beginFetch(key);
    try {
      for (;;) {
        const present = await findStored(file, key, { ...ask, ...settings }, store);
        const kept = present && (await ask.take(present));
        if (kept !== undefined) return kept;
        const { done, isOwn } = join(file, key, ask, fetch.publish);
        const fetched = await done.catch((error: unknown) => {
          ask.signal.throwIfAborted();
          // Another caller's source or token failed; ours may still be good.
          if (isOwn) throw error;
          return undefined;
        });
        // What other credentials opened is stored content for this request, which may or may not have it.
        const isGiven = isOwn || fetched?.secret === ask.secret;
        const taken = fetched === undefined || !isGiven ? undefined : await ask.take(fetched);
        if (taken !== undefined) return taken;
      }
    } finally {
      fetch.end();
    }
  };
}

/** Content on disk that the request may have. */
async function findStored(
  file: StoreFile,
  key: string,
  asking: OriginCheck,
  { layout, origins }: Pick<DownloadStore, "layout" | "origins">,
): Promise<Omit<Content, "sizeBytes"> | undefined> {
  const { sha256 } = file;
  if (sha256 === undefined) return findFinished(layout, file, key, asking);
  if ((await blobSize(layout, sha256)) === undefined) return undefined;
  const isGiven = await mayReuseContent(await origins.of(sha256), file, asking);
  return isGiven ? { sha256, validator: {} } : undefined;
}

/** The content if it was finished before, is still on disk, and the source says that it did not change. */
async function findFinished(
  layout: StoreLayout,
  file: StoreFile,
  key: string,
  { source, signal }: OriginCheck,
): Promise<Content | undefined> {
  const known = await readFinished(layout, key);
  if (known === undefined || (await blobSize(layout, known.sha256)) !== known.sizeBytes) return undefined;
  try {
    const isSame = await isUnchanged(source, file.url, known.validator, signal);
    return isSame ? known : undefined;
  } catch (error) {
    // No answer is no proof: the download itself then says what is wrong.
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
 * Content that took credentials is given to a request for the same file, or for one of the same place that its list states
 * the checksum of, if the origin accepts the request's own credentials. A checksum beside another source proves nothing.
 */
export async function mayReuseContent(
  { isPublic, addresses }: Origin,
  file: Pick<StoreFile, "url" | "isListed">,
  asking: OriginCheck,
): Promise<boolean> {
  if (isPublic) return true;
  const isSame = addresses.includes(plainUrl(file.url));
  if (!isSame && !(file.isListed && addresses.some(asking.source.holds))) return false;
  return (await readFromOrigin(file, asking)) !== undefined;
}

/** What the origin says of the file; undefined where it refuses, or does not answer: the download then says what is wrong. */
export async function readFromOrigin(
  { url }: { readonly url: URL },
  asking: OriginCheck,
): Promise<Validator | undefined> {
  const { source, signal } = asking;
  try {
    const found = await withRetries(() => readValidator(source, url, signal), asking, asking);
    return found === "notModified" ? {} : found;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof MetalbridgeError) return undefined;
    throw error;
  }
}
