/** Until src/source is there. */
import { MetalbridgeError } from "../../src/errors.ts";

export type Source =
  | { readonly kind: "http"; readonly url: string }
  | {
      readonly kind: "hf";
      readonly repo: string;
      readonly file?: string | undefined;
      readonly revision: string;
    }
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "pvc" };

export function parseSource(text: string): Source {
  if (/^https?:/.test(text)) return { kind: "http", url: text };
  if (text.startsWith("file://")) return { kind: "file", path: text.slice(7) };
  if (text.startsWith("/")) return { kind: "file", path: text };
  const hf = /^(?:hf:\/\/)?([^/]+\/[^/@]+)(?:\/([^@]+))?(?:@(.+))?$/.exec(text);
  if (hf === null) throw new MetalbridgeError("SourceNotSupported", text);
  return { kind: "hf", repo: hf[1] ?? "", file: hf[2], revision: hf[3] ?? "main" };
}
