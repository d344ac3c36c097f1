/** The part of Protocol Buffers' wire format that endpoint discovery needs. Pure. */

const VARINT = 0;
const FIXED64 = 1;
const LENGTH = 2;
const FIXED32 = 5;

/** A field with a number; 0 is the default of every number, and left out. */
export function numberField(field: number, value: number): Buffer {
  return value === 0 ? Buffer.alloc(0) : Buffer.concat([varint(field * 8 + VARINT), varint(value)]);
}

/** A field with text or another message. */
export function bytesField(field: number, value: string | Buffer): Buffer {
  const bytes = typeof value === "string" ? Buffer.from(value) : value;
  return Buffer.concat([varint(field * 8 + LENGTH), varint(bytes.length), bytes]);
}

/** The fields of a message that hold text or another message, in order. Throws RangeError for damaged bytes. */
export function* readBytesFields(
  message: Buffer,
): Generator<{ readonly field: number; readonly bytes: Buffer }> {
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
    const type = tag % 8;
    if (type === VARINT) next();
    else if (type === FIXED64) at += 8;
    else if (type === FIXED32) at += 4;
    else if (type === LENGTH) {
      const length = next();
      if (at + length > message.length) throw new RangeError("a field ends after its message");
      yield { field: Math.floor(tag / 8), bytes: message.subarray(at, at + length) };
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
