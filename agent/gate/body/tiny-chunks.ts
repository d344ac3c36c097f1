/** A body in chunks of a few bytes: each costs the process as much as one of 64 KiB, and all services of the host wait for it. */
import type { IncomingMessage } from "node:http";

const PIECES = 4_096;
const AVERAGE_BYTES = 16;

/** Asked with each piece; true once there are many, and they are tiny. */
export function detectTinyChunks(): (piece: Buffer) => boolean {
  let pieces = 0;
  let bytes = 0;
  return ({ length }) => {
    pieces += 1;
    bytes += length;
    return pieces > PIECES && bytes < pieces * AVERAGE_BYTES;
  };
}

/** Ends the connection of a request whose body comes so. The body is read by this, if by nothing else. */
export function rejectTinyChunks(request: IncomingMessage): void {
  const areCrumbs = detectTinyChunks();
  request.on("data", (piece: Buffer) => {
    if (areCrumbs(piece)) request.destroy();
  });
}
