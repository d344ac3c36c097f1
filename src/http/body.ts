/** Reads small request bodies. */
import type { IncomingMessage } from "node:http";

/** A body that is too large is read and discarded up to this size, so that its sender receives the response. */
const MAX_READ_BYTES = 16 * 1024 * 1024;

const MAX_CHUNKS = 64;

/** Reads UTF-8; undefined for more than `maxBytes`. Rejects if the sender disconnects. The connection remains open. */
export async function readBodyText(request: IncomingMessage, maxBytes: number): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    size += (chunk as Buffer).length;
    if (size <= maxBytes) chunks.push(chunk as Buffer);
    // Chunks are joined, because a chunk of one byte takes hundreds of bytes of memory.
    if (chunks.length >= MAX_CHUNKS) chunks.splice(0, chunks.length, Buffer.concat(chunks));
    if (size > MAX_READ_BYTES) break;
  }
  return size > maxBytes ? undefined : Buffer.concat(chunks).toString("utf8");
}
