/** An ELF program without its symbols and debugging data, which no loader reads. */

const MAGIC = 0x7f454c46;
const CLASS_64 = 2;
const LITTLE_ENDIAN = 1;

/**
 * Pure: what the program headers name, without the section headers and all that only they lead to. It is the same for every
 * architecture and needs no binutils, whose versions write different bytes.
 */
export function stripped(program: Buffer): Buffer {
  const isKnown =
    program.readUInt32BE(0) === MAGIC && program[4] === CLASS_64 && program[5] === LITTLE_ENDIAN;
  if (!isKnown) throw new Error("only little-endian 64-bit ELF programs can be stripped");
  const start = Number(program.readBigUInt64LE(32));
  const size = program.readUInt16LE(54);
  const count = program.readUInt16LE(56);
  let end = start + size * count;
  for (let place = start; place < start + size * count; place += size) {
    const [offset, length] = [program.readBigUInt64LE(place + 8), program.readBigUInt64LE(place + 32)];
    end = Math.max(end, Number(offset + length));
  }
  const result = Buffer.from(program.subarray(0, end));
  // Where the section headers are, how many there are, and which one holds their names.
  result.writeBigUInt64LE(0n, 40);
  result.writeUInt16LE(0, 60);
  result.writeUInt16LE(0, 62);
  return result;
}
