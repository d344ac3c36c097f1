/** Judges a download by its first bytes. */
import { permanent, type SourceFailure } from "../../../src/hub/failure.ts";

const GGUF_MAGIC = "GGUF";
const LFS_POINTER = "version https://git-lfs.github.com/spec/";

/** A check of the first bytes of a file; it throws SourceFailure. */
export function firstBytesCheck(
  file: { readonly name: string; readonly isGguf: boolean },
  contentType: string | undefined,
): (bytes: Uint8Array) => void {
  const isHtmlName = /\.html?$/i.test(file.name);
  return (bytes) => {
    const start = Buffer.from(bytes.subarray(0, 64)).toString("latin1");
    if (file.isGguf && start.startsWith(GGUF_MAGIC)) return;
    const looksLikeHtml =
      /^\s*<(!doctype|html|\?xml|head|body)/i.test(start) || /^text\/html/i.test(contentType ?? "");
    if (looksLikeHtml && !isHtmlName) throw notAModel(file.name, "a web page");
    if (start.startsWith(LFS_POINTER)) throw notAModel(file.name, "a Git LFS pointer");
    // Not quoted: messages go into statuses, and the bytes may be of a service that is not meant to be read.
    if (file.isGguf) throw notAModel(file.name, `something that does not begin with "${GGUF_MAGIC}"`);
  };
}

function notAModel(name: string, what: string): SourceFailure {
  return permanent("SourceIsNotAModel", `${name} is not a model file but ${what}`);
}
