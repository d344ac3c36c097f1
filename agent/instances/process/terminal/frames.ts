/** The protocol between a terminal and its clients: one letter for the kind, four bytes for the length, the payload. */
import { z } from "zod";

const KINDS = { hello: "H", input: "I", resize: "R", output: "O", exit: "X" } as const;
export type FrameKind = keyof typeof KINDS;

const HEAD_BYTES = 5;
/** A screen with its complete scrollback is much smaller. */
const MAX_PAYLOAD_BYTES = 16 << 20;

const size = z.object({
  columns: z.number().int().min(1).max(2000),
  rows: z.number().int().min(1).max(2000),
});
export const resizeSchema = size;
export const helloSchema = size.extend({ readOnly: z.boolean().default(false) });
/** Either `code` or `signal` is set. */
export const exitSchema = z.object({ code: z.number().optional(), signal: z.string().optional() });

export type Size = z.output<typeof size>;
export type Hello = z.input<typeof helloSchema>;
export type ProgramExit = z.output<typeof exitSchema>;

/** `payload`: text of the terminal, or an object that is sent as JSON. */
export function frame(kind: FrameKind, payload: string | Uint8Array | object): Buffer {
  const isRaw = typeof payload === "string" || payload instanceof Uint8Array;
  const body = Buffer.from(isRaw ? payload : JSON.stringify(payload));
  const head = Buffer.alloc(HEAD_BYTES);
  head.write(KINDS[kind]);
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
}

/** Parses frames from a stream. An unknown kind is undefined, so that later versions can add kinds. */
export class FrameReader {
  #unread: Buffer = Buffer.alloc(0);

  /** Throws if the bytes are not a frame. */
  *read(bytes: Buffer): Generator<{ readonly kind: FrameKind | undefined; readonly payload: Buffer }> {
    this.#unread = Buffer.concat([this.#unread, bytes]);
    while (this.#unread.length >= HEAD_BYTES) {
      const length = this.#unread.readUInt32BE(1);
      if (length > MAX_PAYLOAD_BYTES) throw new Error("a frame is too long");
      if (this.#unread.length < HEAD_BYTES + length) return;
      const letter = this.#unread.toString("latin1", 0, 1);
      const payload = this.#unread.subarray(HEAD_BYTES, HEAD_BYTES + length);
      this.#unread = this.#unread.subarray(HEAD_BYTES + length);
      const known = Object.entries(KINDS).find(([, one]) => one === letter)?.[0];
      yield { kind: known as FrameKind | undefined, payload };
    }
  }
}
