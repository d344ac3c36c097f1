/** llama-server: one process per replica, on hosts and in pods. */

import { MetalbridgeError } from "../../api/errors.ts";
import { HOST_ENGINE_INSTALLS } from "../../api/fields/runtimes.ts";
import type { EngineDescription } from "../contract/description.ts";
import { type GroupRuntime, LEADER_POD, type PodGroup, workerAddresses } from "../contract/group.ts";
import type { PodInput } from "../contract/pod.ts";
import { LLAMACPP_ARGUMENTS } from "./arguments.ts";
import type { LlamaServerInput } from "./argv-input.ts";
import { llamacppClaims } from "./claims.ts";
import { llamacppPod, llamaServer, toServerInput, WITHOUT_BACKTRACE } from "./pod.ts";
import { LLAMACPP_SETTINGS } from "./settings.ts";

const RPC_PORT = 50_052;

/** llama.cpp over several pods: llama-server sends each worker its layers by RPC, and the head answers requests. */
const llamacppGroup: GroupRuntime = {
  needsOwnImage:
    "the pinned images of llamacpp are built without RPC: set spec.image to a build with GGML_RPC=ON that has ggml-rpc-server on its PATH",
  // The head does not retry, and a second connection could block a worker that serves one head.
  connectsTo: RPC_PORT,
  isFedByLeader: true,
  leader: (input, group) => {
    const command = llamaServer(overGroup(input, group));
    const endpoints = workerAddresses(group).map((address) => `${address}:${RPC_PORT}`);
    return { ...command, expanded: ["--rpc", endpoints.join(",")], env: [...command.env, LEADER_POD] };
  },
  worker: () => ({
    command: ["ggml-rpc-server"],
    args: ["-H", "0.0.0.0", "-p", String(RPC_PORT)],
    env: [WITHOUT_BACKTRACE],
  }),
};

/** Equal numbers of layers for all devices: first those of the workers, in the order of --rpc, then those of the head. */
function overGroup(input: PodInput, { size }: PodGroup): LlamaServerInput {
  const { gpus, settings, model } = input;
  const { strategy = "layer", layers, count } = gpus;
  if (layers !== undefined || !["layer", "pipeline"].includes(strategy))
    throw new MetalbridgeError(
      "SettingNotSupported",
      "runtime llamacpp splits a model over pods by layers, equally: remove hardware.gpu.sharding of the Model",
    );
  const server = toServerInput(input);
  if (count > 0) return { ...server, split: equalParts(size * count) };
  // Without a GPU, the head is no device: it computes the layers that no worker gets. The output counts as one layer more.
  const all = model.status?.gguf?.layerCount;
  const onWorkers = all === undefined ? -1 : all + 1 - Math.floor(all / size);
  return {
    ...server,
    settings: { ...settings, gpuLayers: settings.gpuLayers ?? onWorkers },
    split: equalParts(size - 1),
  };
}

function equalParts(devices: number): LlamaServerInput["split"] & {} {
  return { mode: "layer", parts: Array<number>(devices).fill(1) };
}

export const llamacpp: EngineDescription = {
  runtime: "llamacpp",
  formats: ["gguf"],
  accelerators: ["metal", "cuda", "rocm", "vulkan", "intel", "cpu"],
  apiPaths: [
    ...[
      "chat/completions",
      "chat/completions/input_tokens",
      "completions",
      "responses",
      "responses/input_tokens",
      "embeddings",
      "rerank",
      "reranking",
      "audio/transcriptions",
    ].flatMap((path) => [`/v1/${path}`, `/${path}`]),
    ...["/v1/messages", "/v1/messages/count_tokens"],
    ...["/completion", "/infill", "/embedding", "/tokenize", "/detokenize", "/apply-template"],
    "/v1/models",
  ],
  isSharedDaemon: false,
  checksApiKey: true,
  asksGateForKey: true,
  arguments: LLAMACPP_ARGUMENTS,
  host: {
    install: HOST_ENGINE_INSTALLS.llamacpp,
    settings: LLAMACPP_SETTINGS,
    claims: llamacppClaims,
    reportsRequests: true,
    benchmarkTool: "llama-bench",
    knownBad: [
      {
        below: "b10114",
        why: "it has no --load-mode; the flags for it have changed since (ggml-org/llama.cpp#20834)",
      },
    ],
  },
  pod: llamacppPod,
  group: llamacppGroup,
  traces: {
    programs: ["llama-server"],
    processes: /^llama-server$/,
    modelFolders: [".cache/llama.cpp", "Library/Caches/llama.cpp"],
    formula: "llama.cpp",
    units: "llama*",
  },
};
