/** Says from its first bytes whether a download can be what it should be. */
import { type AttemptFailure, lasting } from "./failure.ts";

const GGUF_MAGIC = "GGUF";
const LFS_POINTER = "version https://git-lfs.github.com/spec/";

/** A check of the first bytes of a file; it throws AttemptFailure. */
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
    if (start.startsWith(LFS_POINTER)) throw notAModel(file.name, "a pointer of Git LFS to one");
    if (file.isGguf)
      throw notAModel(file.name, `something that starts with ${JSON.stringify(start.slice(0, 8))}`);
  };
}

function notAModel(name: string, what: string): AttemptFailure {
  return lasting("SourceIsNotAModel", `${name} is no model file but ${what}`);
}
