/**
 * What the controller does about a Model's source: inspects it, leaves it to the hosts, or refuses it. Pure.
 */

import { describeError, type ErrorCode, MetalbridgeError } from "../../../src/api/errors.ts";
import { DEFAULT_MODEL_ACCELERATOR } from "../../../src/api/fields/hardware.ts";
import type { Model } from "../../../src/api/model.ts";
import type { RemoteSource } from "../../../src/models/source/kinds/registry.ts";
import { isRemote, parseSource } from "../../../src/models/source/parse.ts";
import type { DesiredCache } from "../../workload/cache-eligibility.ts";

export type Task =
  | { readonly at: "refused"; readonly code: ErrorCode; readonly message: string }
  /** Only the host can reach it. */
  | {
      readonly at: "onHost";
      readonly reason: "ReadByHost" | "SourceResolved";
      readonly message: string;
      /** Why its changes cannot be followed. */
      readonly unwatched: string;
    }
  /** Read by a Job, which brings it to a volume or finds it there. */
  | { readonly at: "onVolume" }
  | {
      readonly at: "remote";
      readonly source: RemoteSource;
      readonly message: string;
      /** Checked for changes, which are rolled out. */
      readonly isWatched: boolean;
    };

/** Judges the spec and what is wanted on a volume; nothing is read. */
export function classifyModel(
  { spec }: Model,
  wish: DesiredCache = { at: "none" },
  filledBy: "Job" | "Pods" = "Job",
): Task {
  const isForHosts = (spec.hardware?.accelerator ?? DEFAULT_MODEL_ACCELERATOR) === DEFAULT_MODEL_ACCELERATOR;
  if (wish.at === "refused") return { at: "refused", code: wish.code, message: wish.message };
  const isOnVolume = wish.at === "volume" && filledBy === "Job";
  if (isOnVolume && (!isForHosts || wish.source.kind === "pvc")) return { at: "onVolume" };
  try {
    return taskFor(spec, isForHosts ? FETCHED_BY_HOST : FETCHED_BY_POD, wish);
  } catch (error) {
    if (!(error instanceof MetalbridgeError)) throw error;
    return { at: "refused", code: error.code, message: describeError(error) };
  }
}

const FETCHED_BY_HOST = "source resolved; the host that runs the model downloads it on first use";
const FETCHED_BY_POD = "source resolved; each pod or host that runs the model downloads it";

function taskFor(spec: Model["spec"], message: string, wish: DesiredCache): Task {
  const source = parseSource(spec.source);
  if (source.kind === "ollama" && spec.format !== "gguf")
    return {
      at: "onHost",
      reason: "SourceResolved",
      message: "Ollama on the host pulls the model on first use",
      unwatched: "Ollama keeps what it pulled first; set spec.format: gguf",
    };
  // A stated checksum pins the content, and a volume keeps what was downloaded.
  const isWatched = spec.refreshPolicy === "OnChange" && spec.sha256 === undefined && wish.at !== "volume";
  if (isRemote(source)) return { at: "remote", source, message, isWatched };
  switch (source.kind) {
    case "file":
      return {
        at: "onHost",
        reason: "ReadByHost",
        message: `the host that runs the model reads ${source.path} in place`,
        unwatched: "the host reads the file in place",
      };
    case "pvc":
      throw new MetalbridgeError(
        "SourceNotSupported",
        "Metal hosts cannot mount the claim of a pvc:// source",
        {
          summary: "use file:// for weights that are on the hosts, or run the model in pods",
        },
      );
    default:
      return source satisfies never;
  }
}
