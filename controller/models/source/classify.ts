/** Decides whether the controller inspects a Model's source, leaves it to the hosts, or refuses it. Pure. */

import { describeError, type ErrorCode, MetalbridgeError } from "../../../src/api/errors.ts";
import type { Model } from "../../../src/api/model.ts";
import type { RemoteSource } from "../../../src/models/source/kinds/registry.ts";
import { isRemote, parseSource } from "../../../src/models/source/parse.ts";
import { type CacheRefusal, type DesiredCache, isForHosts } from "../../pods/workload/cache-eligibility.ts";

export type Task =
  | { readonly at: "refused"; readonly code: ErrorCode; readonly message: string }
  /** Only the host can reach the source. */
  | {
      readonly at: "onHost";
      readonly notForPods?: CacheRefusal | undefined;
      readonly reason: "ReadByHost" | "SourceResolved";
      readonly message: string;
      /** Reason why the source cannot be watched for changes. */
      readonly unwatched: string;
    }
  /** A Job downloads the source to a volume, or reads it there. */
  | { readonly at: "onVolume" }
  | {
      readonly at: "remote";
      readonly notForPods?: CacheRefusal | undefined;
      readonly source: RemoteSource;
      readonly message: string;
      /** True if the source is checked for changes, which are rolled out. */
      readonly isWatched: boolean;
    };

/** Classifies by the spec and the desired volume, without reading the source. */
export function classifyModel(
  model: Model,
  desired: DesiredCache = { at: "none" },
  filledBy: "Job" | "Pods" | "undecided" = "Job",
): Task {
  const onHosts = isForHosts(model);
  if (desired.at === "refused") return { at: "refused", code: desired.code, message: desired.message };
  const isOnVolume = desired.at === "volume" && filledBy === "Job";
  if (isOnVolume && (!onHosts || desired.source.kind === "pvc")) return { at: "onVolume" };
  try {
    const task = taskFor(model.spec, onHosts, desired);
    return desired.at === "none" && desired.refusal !== undefined
      ? { ...task, notForPods: desired.refusal }
      : task;
  } catch (error) {
    if (!(error instanceof MetalbridgeError)) throw error;
    return { at: "refused", code: error.code, message: describeError(error) };
  }
}

const FETCHED_BY_HOST = "source resolved; the host that runs the model downloads it on first use";
const FETCHED_BY_POD = "source resolved; each pod or host that runs the model downloads it";

function taskFor(
  spec: Model["spec"],
  onHosts: boolean,
  desired: DesiredCache,
): Extract<Task, { at: "onHost" | "remote" }> {
  const source = parseSource(spec.source);
  if (source.kind === "ollama" && spec.format !== "gguf")
    return {
      at: "onHost",
      reason: "SourceResolved",
      message: onHosts
        ? "Ollama on the host pulls the model on first use"
        : "Ollama pulls the model in each pod, when the pod starts",
      unwatched: "Ollama does not pull again; set spec.format: gguf",
    };
  // A stated checksum pins the content, and a volume keeps what was downloaded.
  const isWatched = spec.refreshPolicy === "OnChange" && spec.sha256 === undefined && desired.at !== "volume";
  const message = onHosts ? FETCHED_BY_HOST : FETCHED_BY_POD;
  if (isRemote(source)) return { at: "remote", source, message, isWatched };
  switch (source.kind) {
    case "file":
      return {
        at: "onHost",
        reason: "ReadByHost",
        message: onHosts
          ? `the host that runs the model reads ${source.path} in place`
          : `each pod reads ${source.path} of its node in place`,
        unwatched: "the host reads the file in place",
      };
    case "pvc":
      throw new MetalbridgeError("SourceNotSupported", "hosts cannot mount the claim of a pvc:// source", {
        summary: "use file:// for weights that are on the hosts, or run the model in pods",
      });
    default:
      return source satisfies never;
  }
}
