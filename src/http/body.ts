/** The body of a request that is small or wrong. */
import type { IncomingMessage } from "node:http";

/** Until then the rest of a body that is too large is read and forgotten, so that its sender sees the answer. */
const MAX_READ_BYTES = 16 * 1024 * 1024;

const MAX_CHUNKS = 64;

/** As UTF-8; undefined where it is longer than `mostBytes`. Rejects where its sender leaves. The connection stays. */
export async function readBodyText(request: IncomingMessage, mostBytes: number): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    size += (chunk as Buffer).length;
    if (size <= mostBytes) chunks.push(chunk as Buffer);
    // Chunks of one byte would take hundreds each.
    if (chunks.length >= MAX_CHUNKS) chunks.splice(0, chunks.length, Buffer.concat(chunks));
    if (size > MAX_READ_BYTES) break;
  }
  return size > mostBytes ? undefined : Buffer.concat(chunks).toString("utf8");
}
