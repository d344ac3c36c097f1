/** Benchmarks of a model on a class of machines. */
import type { ErrorEntry } from "./entry.ts";

export const benchmarkErrors = {
  BenchmarkFailed: {
    what: "A benchmark could not measure the engine: the engine refused or broke off a request, the benchmark program printed no result, or the pod has no image.",
    do: "read the message; correct the Model, or disable its benchmark with spec.benchmark.enabled=false",
    command: "kubectl get jobs -A -l metalbridge.dev/benchmark",
  },
  BenchmarkEngineFailed: {
    what: "The engine of a benchmark exited. The message has its last exit code and the end of its log. OOMKilled: it used more memory than its limit, or the node ran out of memory.",
    do: "read the message; use a smaller model or quantization, or raise spec.resources.memory of the service, or disable the benchmark of the Model with spec.benchmark.enabled=false",
    command: "kubectl get jobs -A -l metalbridge.dev/benchmark",
  },
  BenchmarkUnstable: {
    what: "The runs of a benchmark differ by more than their median, so its result is not used: something else was using the machine.",
    do: "stop other programs on the machine; the benchmark is retried after an hour, and an estimate is used until then",
  },
  BenchmarkImplausible: {
    what: "A machine reported a speed that machines of its class cannot have: more than four times what their memory can read, or less than a hundredth of that. It is not used.",
    do: "check the machine, which may be faulty or compromised; another machine of the class measures instead",
  },
  BenchmarkTimedOut: {
    what: "A benchmark has not finished by its deadline. The message has the last reason for which its pod waited, for example an image that cannot be pulled, or no node with a free GPU.",
    do: "correct what the message names; the benchmark is retried",
    command: "kubectl get jobs -A -l metalbridge.dev/benchmark",
  },
  BenchmarkDisabled: {
    what: "The agent of the host has benchmarks turned off.",
    do: "set benchmark.enabled: true in the agent's configuration, or leave the measurement to another host of the class",
  },
  BenchmarkNotSupported: {
    what: "The host cannot measure this model: the runtime has no benchmark program, the model contains code that the program would run, or the program does not accept a setting or the path of the model.",
    do: "use another runtime, or disable the benchmark of the Model with spec.benchmark.enabled=false",
  },
  BenchmarkToolMissing: {
    what: "The benchmark program of the engine was not found on the host: llama-bench for llama-server, mlx_lm.benchmark for oMLX.",
    do: "install it beside the engine or on the agent's PATH: llama-bench is part of llama.cpp, mlx_lm.benchmark of mlx-lm",
    command: "brew install llama.cpp",
  },
  BenchmarkDoesNotFit: {
    what: "The benchmark needs more memory than the host has available, or caused memory pressure.",
    do: "quit other programs on the host, use a smaller model or quantization, or disable the benchmark of the Model with spec.benchmark.enabled=false",
    command: "kubectl describe host",
  },
  BenchmarkDiskFull: {
    what: "The weights are not on the host, and a download only for a benchmark must leave 20% of the volume free.",
    do: "free space on the volume of the model store, raise disk.quota, or prefetch the model to the host",
    command: "metalbridge models",
  },
  HostBusy: {
    what: "A benchmark waits because the host is not idle: a replica is assigned to it, or a model is being downloaded.",
    do: "wait; the benchmark starts after the host was idle for 60 s. To measure sooner, drain the host, and uncordon it once it is empty: a cordoned host is not measured",
    command: "metalbridge drain <host>",
  },
  BenchToolFailed: {
    what: "The tool in `metalbridge bench --tool` is not on PATH, or it failed.",
    do: "install GuideLLM with Python 3.10 to 3.13, or read its output",
    command: "pip install guidellm",
  },
  BenchSubmitFailed: {
    what: "`metalbridge bench --submit` cannot write the result: the file exists, or the cluster does not report what was measured.",
    do: "read the message",
  },
} as const satisfies Record<string, ErrorEntry>;
