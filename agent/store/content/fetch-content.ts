/** Brings one content to the blobs: found there, or downloaded once however many ask. */
import type { Admission } from "../admission.ts";
import { download } from "../remote/download.ts";
import type { DownloadContext, RemoteFile } from "../remote/download-context.ts";
import { dropPart, partAt } from "../remote/part.ts";
import { blobPath, blobSize, publishBlob } from "./blobs.ts";
import { type Content, findFinished, rememberFinished } from "./finished.ts";
import { createFlights } from "./flights.ts";
import { contentKey, type Layout } from "./layout.ts";

export type FetchContent = (
  file: RemoteFile,
  ask: {
    readonly secretHeaders: Readonly<Record<string, string>>;
    readonly signal: AbortSignal;
    readonly onProgress: DownloadContext["onProgress"];
  },
) => Promise<Content>;

export type DownloadSettings = Omit<DownloadContext, "secretHeaders" | "signal" | "onProgress" | "admit">;

export function createFetchContent(
  layout: Layout,
  settings: DownloadSettings,
  admission: Admission,
): FetchContent {
  const flights = createFlights<Content>();
  return async (file, ask) => {
    const key = contentKey(file);
    for (;;) {
      const present =
        (await findBlob(layout, file)) ??
        (await findFinished(layout, file, key, { rules: settings.rules, ...ask }));
      if (present !== undefined) return present;
      const flight = flights.join(key, ask.signal, ask.onProgress, (signal, onProgress) =>
        fly(layout, file, key, {
          ...settings,
          ...ask,
          signal,
          onProgress,
          admit: admitFor(admission, key, file),
        }).finally(() => admission.done(key)),
      );
      if (flight.isOwn) return await flight.done;
      try {
        return await flight.done;
      } catch {
        // Somebody else's source or token failed; ours may still be good.
        ask.signal.throwIfAborted();
      }
    }
  };
}

async function findBlob(layout: Layout, file: RemoteFile): Promise<Content | undefined> {
  if (file.sha256 === undefined) return undefined;
  const sizeBytes = await blobSize(layout, file.sha256);
  return sizeBytes === undefined
    ? undefined
    : { sha256: file.sha256.toLowerCase(), sizeBytes, validator: {} };
}

function admitFor(admission: Admission, key: string, file: RemoteFile): DownloadContext["admit"] {
  return (neededBytes) => admission.admit(key, file.name, neededBytes);
}

async function fly(
  layout: Layout,
  file: RemoteFile,
  key: string,
  context: DownloadContext,
): Promise<Content> {
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
