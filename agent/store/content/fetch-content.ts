/** Brings one content to the blobs: found there, or downloaded once for all callers. */
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { Log } from "../../../src/ports.ts";
import { makeFolder } from "../../folder.ts";
import type { Admission } from "../admission.ts";
import { download } from "../remote/download.ts";
import type { DownloadContext, StoreFile } from "../remote/download-context.ts";
import { dropPart, partAt } from "../remote/part.ts";
import { blobPath, blobSize, publishBlob } from "./blobs.ts";
import { type Content, findFinished, rememberFinished } from "./finished.ts";
import { createFlights } from "./flights.ts";
import { contentKey, type Layout, namesIn } from "./layout.ts";

export type FetchContent = (
  file: StoreFile,
  ask: {
    readonly source: DownloadContext["source"];
    readonly signal: AbortSignal;
    readonly onProgress: DownloadContext["onProgress"];
    /** Keeps the content for the caller if its blob is there; undefined otherwise. */
    readonly take: (content: Omit<Content, "sizeBytes">) => Promise<Content | undefined>;
  },
) => Promise<Content>;

export type DownloadSettings = Omit<DownloadContext, "source" | "signal" | "onProgress" | "admit">;

export function createFetchContent(
  layout: Layout,
  settings: DownloadSettings,
  admission: Admission,
  mismatch: "keep" | "remove",
): FetchContent {
  const flights = createFlights<Content>();
  return async (file, ask) => {
    const key = contentKey(file);
    for (;;) {
      const present = await findStored(layout, file, key, ask);
      if (present !== undefined) return present;
      const flight = flights.join(key, ask.signal, ask.onProgress, (signal, onProgress) =>
        fly(layout, file, key, {
          ...settings,
          ...ask,
          signal,
          onProgress,
          admit: admitFor(admission, key, file),
        })
          .catch((error: unknown) => afterMismatch(layout, file, key, mismatch, settings.log, error))
          .finally(() => admission.done(key)),
      );
      const fetched = await flight.done.catch((error: unknown) => {
        ask.signal.throwIfAborted();
        // Another caller's source or token failed; ours may still be good.
        if (flight.isOwn) throw error;
        return undefined;
      });
      const kept = fetched === undefined ? undefined : await ask.take(fetched);
      if (kept !== undefined) return kept;
    }
  };
}

async function findStored(
  layout: Layout,
  file: StoreFile,
  key: string,
  ask: Parameters<FetchContent>[1],
): Promise<Content | undefined> {
  const stated = file.sha256 === undefined ? undefined : { sha256: file.sha256.toLowerCase(), validator: {} };
  const known = stated ?? (await findFinished(layout, file, key, ask));
  return known === undefined ? undefined : ask.take(known);
}

function admitFor(admission: Admission, key: string, file: StoreFile): DownloadContext["admit"] {
  return (neededBytes) => admission.admit(key, file.name, neededBytes);
}

async function fly(layout: Layout, file: StoreFile, key: string, context: DownloadContext): Promise<Content> {
  const part = partAt(layout.partial, key);
  const received = await download(file, part, context);
  if ((await blobSize(layout, received.sha256)) === undefined) {
    await publishBlob(layout, received.sha256, part.path);
    context.log.info(
      { file: file.name, sha256: received.sha256, path: blobPath(layout, received.sha256) },
      "model file stored",
    );
  }
  if (file.sha256 === undefined) await rememberFinished(layout, key, received);
  await dropPart(part);
  return received;
}

const SET_ASIDE = "download-";

/** A download with the wrong checksum is kept for inspection, in place of the one before it: never served, removed by the sweep. */
async function afterMismatch(
  layout: Layout,
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
    for (const other of await namesIn(layout.quarantine))
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
