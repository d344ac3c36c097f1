/** Downloads one file into its part: resumes, follows the validator, tries again within limits. */
import { MetalbridgeError } from "../../../src/errors.ts";
import { type Received, receive } from "./attempt.ts";
import type { DownloadContext, RemoteFile } from "./download-context.ts";
import { AttemptFailure, plainUrl } from "./failure.ts";
import type { Part } from "./part.ts";
import { backoffMs, pause } from "./retrying.ts";

const PROGRESS_BYTES = 1 << 20;

/** The whole file in its part, synced and hashed. Every attempt that brings at least a mebibyte starts the count afresh. */
export async function download(file: RemoteFile, part: Part, context: DownloadContext): Promise<Received> {
  let failures = 0;
  for (;;) {
    context.signal.throwIfAborted();
    let highest = 0;
    const outcome = await receive(file, part, {
      ...context,
      onProgress: (bytes, totalBytes) => {
        highest = Math.max(highest, bytes);
        context.onProgress(bytes, totalBytes);
      },
    }).catch((error: unknown) => error);
    if (!(outcome instanceof Error)) return outcome as Received;
    context.signal.throwIfAborted();
    if (!(outcome instanceof AttemptFailure)) throw outcome;
    failures = outcome.gainedBytes >= PROGRESS_BYTES ? 1 : failures + 1;
    if (!outcome.canPass || failures >= context.attempts) throw explained(outcome, failures);
    const waitMs = backoffMs(failures, context.firstBackoffMs, outcome.retryAfterMs);
    context.log.warn(
      { url: plainUrl(file.url), code: outcome.error.code, bytes: highest, waitMs },
      `download interrupted: ${outcome.message}; trying again`,
    );
    await pause(waitMs, context);
  }
}

function explained(failure: AttemptFailure, failures: number): MetalbridgeError {
  if (failures === 1) return failure.error;
  const { code, message, remedy } = failure.error;
  return new MetalbridgeError(code, `${message} (${failures} attempts in a row)`, remedy, { cause: failure });
}
