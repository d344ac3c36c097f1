/** What the controller can do about a Model's source: look at it, leave it to the hosts, or refuse it. Pure. */
import type { Model } from "../../src/api/model.ts";
import { describeError, type ErrorCode, MetalbridgeError } from "../../src/errors.ts";
import { parseSource, type Source } from "../../src/source/source.ts";

export type Task =
  | { readonly at: "refused"; readonly code: ErrorCode; readonly message: string }
  /** Only the host can reach it. */
  | { readonly at: "onHost"; readonly reason: "ReadByHost" | "FetchedByHost"; readonly message: string }
  | { readonly at: "remote"; readonly source: Extract<Source, { kind: "http" | "hf" }> };

/** Judges spec alone; nothing is read. */
export function classifyModel({ spec }: Model): Task {
  const accelerator = spec.hardware?.accelerator ?? "cpu";
  try {
    const source = parseSource(spec.source);
    if (accelerator !== "metal") {
      const message = `accelerator ${accelerator} is not served by this version, which runs models on Metal hosts only`;
      throw new MetalbridgeError("NotYetSupported", message);
    }
    return taskFor(source);
  } catch (error) {
    if (!(error instanceof MetalbridgeError)) throw error;
    return { at: "refused", code: error.code, message: describeError(error) };
  }
}

function taskFor(source: Source): Task {
  switch (source.kind) {
    case "http":
    case "hf":
      return { at: "remote", source };
    case "file":
      return {
        at: "onHost",
        reason: "ReadByHost",
        message: `the host that runs it reads ${source.path} in place`,
      };
    case "ollama":
      return { at: "onHost", reason: "FetchedByHost", message: "Ollama on the host pulls it on first use" };
    case "pvc":
    case "s3":
    case "oss":
    case "gs":
    case "modelscope":
      throw new MetalbridgeError(
        "SourceNotSupported",
        `${source.kind}:// sources cannot be fetched by Metal hosts`,
      );
    default:
      return source satisfies never;
  }
}
