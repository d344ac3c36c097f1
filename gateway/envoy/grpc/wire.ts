/** The part of gRPC and of the Protocol Buffers wire format that the messages of this folder need. */
import type { ServerHttp2Stream } from "node:http2";

/** One byte for compression, four for the length. */
const FRAME_HEADER_BYTES = 5;
const MAX_MESSAGE_BYTES = 16 << 20;

const VARINT = 0;
const FIXED64 = 1;
const LENGTH = 2;
const FIXED32 = 5;

/** A field of a message: `bytes` of a text or of another message, or the `number` of a varint. */
export interface Field {
  readonly field: number;
  readonly bytes: Buffer;
  readonly number: number;
}

/** A message with the header that gRPC puts before it. */
export function frame(message: Buffer): Buffer {
  const header = Buffer.alloc(FRAME_HEADER_BYTES);
  header.writeUInt32BE(message.length, 1);
  return Buffer.concat([header, message]);
}

/** Opens the response to a stream of Envoy, and calls `onMessage` for each message. A message that is too large ends the stream. */
export function readFrames(stream: ServerHttp2Stream, onMessage: (message: Buffer) => void): void {
  let received: Buffer = Buffer.alloc(0);
  stream.respond({ ":status": 200, "content-type": "application/grpc" });
  stream.on("error", () => {});
  stream.once("end", () => stream.end());
  stream.on("data", (chunk: Buffer) => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
    while (received.length >= FRAME_HEADER_BYTES) {
      const length = received.readUInt32BE(1);
      if (length > MAX_MESSAGE_BYTES) return void stream.destroy();
      const end = FRAME_HEADER_BYTES + length;
      if (received.length < end) return;
      const message = received.subarray(FRAME_HEADER_BYTES, end);
      received = received.subarray(end);
      onMessage(message);
    }
  });
}

/** A number field. 0 is the default, so it is omitted. */
export function numberField(field: number, value: number): Buffer {
  return value === 0 ? Buffer.alloc(0) : Buffer.concat([varint(field * 8 + VARINT), varint(value)]);
}

/** A field that holds text or another message. */
export function bytesField(field: number, value: string | Buffer): Buffer {
  const bytes = typeof value === "string" ? Buffer.from(value) : value;
  return Buffer.concat([varint(field * 8 + LENGTH), varint(bytes.length), bytes]);
}

const NO_BYTES = Buffer.alloc(0);

/** The fields of a message in order, without those of a fixed width. Throws RangeError for damaged bytes. */
export function* readFields(message: Buffer): Generator<Field> {
  let at = 0;
  const next = (): number => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = message.readUInt8(at);
      at += 1;
      value += (byte % 128) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const tag = next();
    const [field, type] = [Math.floor(tag / 8), tag % 8];
    if (type === VARINT) yield { field, bytes: NO_BYTES, number: next() };
    else if (type === FIXED64) at += 8;
    else if (type === FIXED32) at += 4;
    else if (type === LENGTH) {
      const length = next();
      if (at + length > message.length) throw new RangeError("a field exceeds its message");
      yield { field, bytes: message.subarray(at, at + length), number: 0 };
      at += length;
    } else throw new RangeError(`unknown wire type ${type}`);
  }
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Buffer.from([...bytes, rest]);
}
