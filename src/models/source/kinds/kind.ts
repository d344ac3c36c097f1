/** The description of a kind of source, for all parts. The code that downloads from it is in src/hub. */
import type { ModelFormat } from "../../../api/fields/shared.ts";

/** One kind of `spec.source`. A new one is a file here with a line in registry.ts, and a folder in src/hub with a line in inspect/open.ts. */
export interface SourceKind<Source> {
  /** Before `://`. */
  readonly schemes: readonly string[];
  /** The shortest useful example of `spec.source`, for messages and the CRD: `ollama://name:tag`. */
  readonly form: string;
  /** The same with its optional parts, for the reference; absent: `form` has none. */
  readonly fullForm?: string;
  /** `hub`: src/hub downloads it. `host` and `pods` read it in place. */
  readonly readBy: "hub" | "host" | "pods";
  /** Keys of its Secret beyond those that sources share; names of variables are read from the agent's environment too. */
  readonly credentialKeys?: readonly string[];
  /** Reads what follows `://`. Throws InvalidSource. */
  parse(rest: string, text: string): Source;
  /** The file that the source names, if any: the last part of its path. */
  fileName?(source: Source): string | undefined;
  /** The format, if the file name does not show it. */
  format?(source: Source): ModelFormat | undefined;
  /** A name for objects; absent: that of the file. */
  shortName?(source: Source): string;
  /** The endpoint that the source is downloaded from; undefined if its Secret may name any endpoint. */
  origin?(source: Source, endpoints: SourceEndpoints): string | undefined;
}

/** Servers that the operator chose. */
export interface SourceEndpoints {
  /** Hugging Face, or a mirror with the same API. */
  readonly hfEndpoint: string;
  /** The registry of ollama:// sources without a host. Defaults to Ollama's own registry. */
  readonly ollamaRegistry?: string | undefined;
}

/** The reason why a text is not a source, and the correct form. */
export class InvalidSource extends Error {
  readonly form: string;
  /** The text as it may be shown; undefined if it holds no secret. */
  readonly shown: string | undefined;

  constructor(why: string, form: string, shown?: string) {
    super(why);
    this.form = form;
    this.shown = shown;
  }
}
