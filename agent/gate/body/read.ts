/** Reads a request's JSON up to a limit, and scans it while it arrives. */
import type { IncomingMessage } from "node:http";
import { BodyBuffer } from "./body-buffer.ts";
import type { BodyShare } from "./budget.ts";
import { type RequestRejection, rejectRequest, retryLater } from "./rejection.ts";
import { invalidJson, type ModelNaming, rewriteModel, scannerFor } from "./rewrite-model.ts";
import { detectTinyChunks } from "./tiny-chunks.ts";

const TINY_CHUNKS = {
  ...rejectRequest(400, "tiny_chunks", "the body consists of thousands of tiny chunks; send larger chunks"),
  headers: { connection: "close" },
};

/** Calls `done` once, with the body to send to the daemon, or with the reason to reject it as soon as the bytes show it. */
export function readRequestBody(
  request: IncomingMessage,
  {
    limitBytes,
    share,
    naming,
  }: { readonly limitBytes: number; readonly share: BodyShare; readonly naming: ModelNaming },
  done: (body: Buffer[] | RequestRejection) => void,
): void {
  const tooLarge = rejectRequest(413, "too_large", `the body is larger than ${limitBytes} bytes`);
  let buffer = new BodyBuffer();
  const scanner = scannerFor(naming);
  const finish = (body: Buffer[] | RequestRejection): void => {
    request.off("data", onData).off("end", onEnd);
    // Frees the buffer: the budget keeps a reference to this function while the body arrives.
    buffer = new BodyBuffer();
    done(body);
  };
  const append = (piece: Buffer): RequestRejection | undefined => {
    if (buffer.length + piece.length > limitBytes) return tooLarge;
    if (!share.take(buffer.bytesToAllocate(piece.length)))
      return retryLater("busy", "too many concurrent large requests");
    buffer.append(piece);
    const problem = scanner.push(piece);
    return problem === undefined ? undefined : invalidJson(problem);
  };
  const hasTinyChunks = detectTinyChunks();
  const onData = (piece: Buffer): void => {
    const rejection = hasTinyChunks(piece) ? TINY_CHUNKS : append(piece);
    if (rejection !== undefined) finish(rejection);
  };
  const onEnd = (): void => {
    share.arrived();
    finish(rewriteModel(buffer, scanner, naming));
  };
  if ((request.headers["content-encoding"] ?? "identity") !== "identity")
    done(rejectRequest(415, "encoding", "send the body without content-encoding"));
  else if (Number(request.headers["content-length"] ?? 0) > limitBytes) done(tooLarge);
  else {
    request.on("data", onData).once("end", onEnd);
    share.arriving(() =>
      finish(retryLater("busy", "the body came too slowly while other requests needed its memory")),
    );
  }
}
