/** Notices a download that delivers no bytes any more. */
import type { IncomingMessage } from "node:http";
import type { Clock } from "../../../src/ports.ts";

/** Destroys the response when no byte came for `stallMs` although we were ready to read. */
export function watchForStall(
  response: IncomingMessage,
  clock: Clock,
  stallMs: number,
): { readonly isStalled: () => boolean; readonly stop: () => void } {
  let seenBytes = -1;
  let quietSinceMs = clock.monotonicMs();
  let isStalled = false;
  let cancel = (): void => undefined;
  const look = (): void => {
    const bytes = response.socket.bytesRead;
    // Bytes that wait for us to read them mean that the disk is slow, not the server.
    if (bytes !== seenBytes || response.readableLength > 0) {
      seenBytes = bytes;
      quietSinceMs = clock.monotonicMs();
    }
    if (clock.monotonicMs() - quietSinceMs >= stallMs) {
      isStalled = true;
      response.destroy(new Error("stalled"));
      return;
    }
    cancel = clock.after(stallMs / 4, look);
  };
  look();
  return { isStalled: () => isStalled, stop: () => cancel() };
}
