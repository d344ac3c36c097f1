/** Bodies of requests that anyone may send at the same time: all together take a bounded amount of memory. */
import type { Readable } from "node:stream";

export interface WebhookBodyLimits {
  readonly eachBytes: number;
  /** Bytes of all bodies that are being received. */
  readonly allBytes: number;
}

/** A chunk of one byte takes about this much memory. */
const CHUNK_BYTES = 512;

/**
 * Reads a body as UTF-8; undefined if it is too long. Past `allBytes` the largest one is cut off, and its reading
 * rejects: reviews are small, so it is none of theirs.
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
