/** Reads request bodies with a limit on their total memory, because any client may send requests. */
import type { Readable } from "node:stream";

export interface WebhookBodyLimits {
  readonly eachBytes: number;
  /** Maximum bytes of all bodies that are being received. */
  readonly allBytes: number;
}

/** Approximate memory of a chunk of one byte. */
const CHUNK_BYTES = 512;

/**
 * Reads a body as UTF-8; undefined if it is too long. Beyond `allBytes`, the largest request is aborted and its read rejects.
 * AdmissionReviews are small, so the largest request is not one of them.
 */
export function createBodyReader({
  eachBytes,
  allBytes,
}: WebhookBodyLimits): (request: Readable) => Promise<string | undefined> {
  const arriving = new Map<Readable, number>();
  let total = 0;
  const grow = (request: Readable, bytes: number) => {
    arriving.set(request, (arriving.get(request) ?? 0) + bytes);
    total += bytes;
    if (total <= allBytes) return;
    const [largest] = [...arriving].reduce((most, one) => (one[1] > most[1] ? one : most));
    forget(largest);
    largest.destroy(new Error("the bodies of all requests are too large together"));
  };
  const forget = (request: Readable) => {
    total -= arriving.get(request) ?? 0;
    arriving.delete(request);
  };
  return async (request) => {
    const chunks: Buffer[] = [];
    let size = 0;
    try {
      for await (const chunk of request.iterator({ destroyOnReturn: false })) {
        size += (chunk as Buffer).length;
        if (size > eachBytes) return undefined;
        chunks.push(chunk as Buffer);
        grow(request, Math.max((chunk as Buffer).length, CHUNK_BYTES));
      }
      return Buffer.concat(chunks).toString("utf8");
    } finally {
      forget(request);
    }
  };
}
