/** A request's JSON: read up to a limit, scanned as it comes, and held until the daemon has it. */
import type { IncomingMessage } from "node:http";
import type { BodyShare } from "./budget.ts";
import { HeldBytes } from "./held-bytes.ts";
import { type RequestRejection, rejectRequest, retryLater } from "./rejection.ts";
import { invalidJson, type ModelNaming, rewriteModel, scannerFor } from "./rewrite-model.ts";
import { detectTinyChunks } from "./tiny-chunks.ts";

const TINY_CHUNKS = {
  ...rejectRequest(
    400,
    "tiny_chunks",
    "the body comes in thousands of chunks of a few bytes; send larger ones",
  ),
  headers: { connection: "close" },
};

interface Reading {
  readonly limitBytes: number;
  readonly share: BodyShare;
  readonly naming: ModelNaming;
}

/**
 * Calls `done` once with the body as it is sent on, or with the reason why it is not taken, which is known as early as the bytes
 * that show it.
 */
export function readRequestBody(
  request: IncomingMessage,
  { limitBytes, share, naming }: Reading,
  done: (body: Buffer[] | RequestRejection) => void,
): void {
  const tooLarge = rejectRequest(413, "too_large", `the body is larger than ${limitBytes} bytes`);
  let held = new HeldBytes();
  const scanner = scannerFor(naming);
  const finish = (body: Buffer[] | RequestRejection): void => {
    request.off("data", take).off("end", end);
    // The budget keeps this function for as long as the body arrives.
    held = new HeldBytes();
    done(body);
  };
  const hold = (piece: Buffer): RequestRejection | undefined => {
    if (held.length + piece.length > limitBytes) return tooLarge;
    if (!share.take(held.needs(piece.length))) return retryLater("busy", "too many large requests at once");
    held.append(piece);
    const problem = scanner.push(piece);
    return problem === undefined ? undefined : invalidJson(problem);
  };
  const areCrumbs = detectTinyChunks();
  const take = (piece: Buffer): void => {
    const refusal = areCrumbs(piece) ? TINY_CHUNKS : hold(piece);
    if (refusal !== undefined) finish(refusal);
  };
  const end = (): void => {
    share.arrived();
    finish(rewriteModel(held, scanner, naming));
  };
  if (request.headers["content-encoding"] !== undefined)
    done(rejectRequest(415, "encoding", "send the body without content-encoding"));
  else if (Number(request.headers["content-length"] ?? 0) > limitBytes) done(tooLarge);
  else {
    request.on("data", take).once("end", end);
    share.arriving(() =>
      finish(retryLater("busy", "the body came too slowly while other requests needed its memory")),
    );
  }
}
