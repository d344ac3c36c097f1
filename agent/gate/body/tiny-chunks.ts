/** Detects bodies in chunks of a few bytes: each chunk costs the process as much as one of 64 KiB, and delays all services of the host. */
import type { IncomingMessage } from "node:http";

const PIECES = 4_096;
const AVERAGE_BYTES = 16;

/** Called with each piece; returns true once there were many pieces, and they were tiny. */
export function detectTinyChunks(): (piece: Buffer) => boolean {
  let pieces = 0;
  let bytes = 0;
  return ({ length }) => {
    pieces += 1;
    bytes += length;
    return pieces > PIECES && bytes < pieces * AVERAGE_BYTES;
  };
}

/** Closes the connection of a request whose body comes in tiny chunks. Also makes the body flow if nothing else reads it. */
export function rejectTinyChunks(request: IncomingMessage): void {
  const hasTinyChunks = detectTinyChunks();
  request.on("data", (piece: Buffer) => {
    if (hasTinyChunks(piece)) request.destroy();
  });
}
