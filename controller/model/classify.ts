/**
 * What the controller does about a Model's source: inspects it, leaves it to the hosts, or refuses it. Pure.
 */

import { describeError, type ErrorCode, MetalbridgeError } from "../../src/api/errors.ts";
import { DEFAULT_ACCELERATOR } from "../../src/api/fields/hardware.ts";
import type { Model } from "../../src/api/model.ts";
import { parseSource, type Source } from "../../src/models/source/source.ts";

export type Task =
  | { readonly at: "refused"; readonly code: ErrorCode; readonly message: string }
  /** Only the host can reach it. */
  | { readonly at: "onHost"; readonly reason: "ReadByHost" | "SourceResolved"; readonly message: string }
  | { readonly at: "remote"; readonly source: Extract<Source, { kind: "http" | "hf" }> };

/** Judges spec alone; nothing is read. */
export function classifyModel({ spec }: Model): Task {
  const accelerator = spec.hardware?.accelerator ?? DEFAULT_ACCELERATOR;
  try {
    const source = parseSource(spec.source);
    if (accelerator !== "metal") {
      const message = `accelerator ${accelerator} is not supported: this version runs models on Metal hosts only`;
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
        message: `the host that runs the model reads ${source.path} in place`,
      };
    case "ollama":
      return {
        at: "onHost",
        reason: "SourceResolved",
        message: "Ollama on the host pulls the model on first use",
      };
    case "pvc":
    case "s3":
    case "oss":
    case "gs":
    case "modelscope":
      throw new MetalbridgeError("SourceNotSupported", `Metal hosts cannot fetch ${source.kind}:// sources`);
    default:
      return source satisfies never;
  }
}
