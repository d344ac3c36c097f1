/** Says from the first bytes of a file why it is not a GGUF file. */
import { MetalbridgeError } from "../../api/errors.ts";

const MAGIC = "GGUF";

/** Throws unless the file begins like a little-endian GGUF of a known version. Takes the first eight bytes. */
export function checkFirstBytes(view: DataView): number {
  const head = latin(view);
  if (!head.startsWith(MAGIC)) throw notGguf(head);
  const version = view.getUint32(4, true);
  if (version === 2 || version === 3) return version;
  if (version !== 0 && (version & 0xffff) === 0) {
    throw new MetalbridgeError(
      "GgufBigEndian",
      `the GGUF file is big-endian (version ${view.getUint32(4, false)})`,
    );
  }
  throw new MetalbridgeError(
    "GgufVersion",
    `the GGUF file has version ${version}; versions 2 and 3 are read`,
  );
}

function notGguf(head: string): MetalbridgeError {
  const trimmed = head.replace(/^(\u00ef\u00bb\u00bf)?\s*/, "");
  if (trimmed.startsWith("<"))
    return new MetalbridgeError("SourceIsNotAModel", "it is a web page or XML, not a GGUF file");
  if (trimmed.startsWith("{") || trimmed.startsWith("[")) {
    return new MetalbridgeError("SourceIsNotAModel", "it is JSON, not a GGUF file");
  }
  if (head.startsWith("version ")) {
    return new MetalbridgeError("SourceIsNotAModel", "it is a Git LFS pointer, not the file itself", {
      summary: "use the download address of the file (…/resolve/… on Hugging Face), or run git lfs pull",
    });
  }
  if (head.startsWith("PK"))
    return new MetalbridgeError("GgufBadMagic", "it is a zip archive or PyTorch file, not a GGUF file");
  // Not quoted: messages go into statuses, and the bytes may be of a service that is not meant to be read.
  return new MetalbridgeError("GgufBadMagic", `it does not begin with "${MAGIC}", as GGUF files do`);
}

function latin(view: DataView): string {
  let text = "";
  for (let index = 0; index < view.byteLength; index++) text += String.fromCharCode(view.getUint8(index));
  return text;
}
