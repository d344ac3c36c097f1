/** Which files of a repository make up the model, when the source does not say. */
import { MetalbridgeError } from "../errors.ts";
import { parseSplitName, splitFileNames } from "./split-files.ts";

export interface FileChoice {
  /** Every file of the repository. */
  readonly available: readonly string[];
  readonly repo: string;
  readonly asked?: readonly string[];
  /** `spec.quantization`: chooses where several fit. */
  readonly quantization?: string | undefined;
}

/** The model's files, the main one first: what is asked for, or the one GGUF there is, with all its parts. */
export function chooseGgufFiles({ available, repo, asked = [], quantization }: FileChoice): string[] {
  if (asked.length > 0) {
    const files = asked.length === 1 ? splitFileNames(asked[0] ?? "") : [...asked];
    const missing = files.filter((file) => !available.includes(file));
    if (missing.length > 0) throw new MetalbridgeError("SourceNotFound", `${repo} has no file ${missing[0]}`);
    return files;
  }
  const mains = available.filter(isMainGguf).sort();
  if (mains.length === 0) throw new MetalbridgeError("SourceIsNotAModel", `${repo} holds no .gguf file`);
  const fitting = quantization === undefined ? mains : mains.filter((name) => names(name, quantization));
  const [only] = fitting;
  if (fitting.length === 1 && only !== undefined) return chooseGgufFiles({ available, repo, asked: [only] });
  const list = (fitting.length === 0 ? mains : fitting).slice(0, 8).join(", ");
  const why = fitting.length === 0 ? `none is named ${quantization}` : "the source does not say which one";
  throw new MetalbridgeError("SourceAmbiguous", `${repo} holds several models (${list}) and ${why}`);
}

function isMainGguf(name: string): boolean {
  if (!name.toLowerCase().endsWith(".gguf") || /(^|[/_.-])mmproj/i.test(name) || /imatrix/i.test(name))
    return false;
  return (parseSplitName(name)?.index ?? 1) === 1;
}

function names(file: string, quantization: string): boolean {
  const escaped = quantization.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`(^|[/._-])${escaped}([/._-]|$)`, "i").test(file);
}
