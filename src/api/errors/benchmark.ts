/** Benchmarks of a model on a class of machines. */
import type { ErrorEntry } from "./entry.ts";

export const benchmarkErrors = {
  BenchmarkFailed: {
    what: "A benchmark could not measure the engine: the engine refused or broke off a request, or the pod has no image.",
    do: "read the message; correct the Model, or disable its benchmark with spec.benchmark.enabled=false",
    command: "kubectl get jobs -A -l metalbridge.dev/benchmark",
  },
  BenchmarkEngineFailed: {
    what: "The engine of a benchmark exited. The message has its last exit code and the end of its log. OOMKilled: it used more memory than its limit, or the node ran out of memory.",
    do: "read the message; use a smaller quantization, or raise spec.resources.memory of the service, or disable the benchmark of the Model with spec.benchmark.enabled=false",
    command: "kubectl get jobs -A -l metalbridge.dev/benchmark",
  },
  BenchmarkTimedOut: {
    what: "A benchmark has not finished by its deadline. The message has the last reason for which its pod waited, for example an image that cannot be pulled, or no node with a free GPU.",
    do: "correct what the message names; the benchmark is retried",
    command: "kubectl get jobs -A -l metalbridge.dev/benchmark",
  },
} as const satisfies Record<string, ErrorEntry>;
