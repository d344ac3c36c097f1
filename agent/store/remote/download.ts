/** Downloads one file into its part: resumes, follows the validator, retries within limits. */
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { plainUrl, SourceFailure } from "../../../src/hub/failure.ts";
import { type ReceivedFile, receiveFile } from "./attempt.ts";
import type { DownloadContext, StoreFile } from "./download-context.ts";
import type { DownloadPart, PartMemory } from "./part.ts";
import { pauseBeforeRetryMs, waitBeforeRetry } from "./retry.ts";

const PROGRESS_BYTES = 1 << 20;

/** Runs once it is the file's turn among the downloads of this host. */
export async function runWhenScheduled<T>(
  file: StoreFile,
  context: DownloadContext,
  run: () => Promise<T>,
): Promise<T> {
  const leave = await context.queue.enter(context.tenants, context.signal, (before) =>
    context.onProgress(0, file.sizeBytes, before),
  );
  try {
    return await run();
  } finally {
    leave();
  }
}

/** The whole file in its part, synced and hashed. Every attempt that brings at least 1 MiB resets the count of failures. */
export async function download(
  file: StoreFile,
  part: DownloadPart,
  context: DownloadContext,
  memory: PartMemory,
): Promise<ReceivedFile> {
  let failures = 0;
  for (;;) {
    context.signal.throwIfAborted();
    let highest = 0;
    const onProgress: DownloadContext["onProgress"] = (bytes, totalBytes) => {
      highest = Math.max(highest, bytes);
      context.onProgress(bytes, totalBytes);
    };
    const outcome = await receiveFile(file, part, { ...context, onProgress }, memory).catch(
      (error: unknown) => error,
    );
    if (!(outcome instanceof Error)) return outcome as ReceivedFile;
    context.signal.throwIfAborted();
    if (!(outcome instanceof SourceFailure)) throw outcome;
    failures = outcome.gainedBytes >= PROGRESS_BYTES ? 1 : failures + 1;
    if (!outcome.isTransient || failures >= context.attempts) throw explained(outcome, failures);
    const waitMs = pauseBeforeRetryMs(failures, context.firstBackoffMs, outcome.retryAfterMs);
    context.log.warn(
      { url: plainUrl(file.url), code: outcome.error.code, bytes: highest, waitMs },
      `download interrupted: ${outcome.message}; retrying`,
    );
    await waitBeforeRetry(waitMs, context);
  }
}

function explained(failure: SourceFailure, failures: number): MetalbridgeError {
  if (failures === 1) return failure.error;
  const { code, message, remedy } = failure.error;
  return new MetalbridgeError(code, `${message} (${failures} attempts in a row)`, remedy, { cause: failure });
}
