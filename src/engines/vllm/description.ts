/** vLLM, in pods. */
import type { EngineDescription } from "../contract/description.ts";
import {
  type GroupRuntime,
  groupSizes,
  LEADER_ADDRESS,
  type PodGroup,
  WORKER_INDEX,
} from "../contract/group.ts";
import type { PodCommand, PodInput } from "../contract/pod.ts";
import { VLLM_ARGUMENTS, vllmPod, vllmServe } from "./pod.ts";

/** vLLM over several pods, with its own process group: every pod runs the server, and only the first one opens HTTP. */
const vllmGroup: GroupRuntime = {
  leader: rank,
  worker: (input, group) => {
    const command = rank(input, group);
    return { ...command, expanded: [...(command.expanded ?? []), "--headless"] };
  },
};

/** Tensor shards inside a pod and pipeline shards over pods, because the network is slower than the links of GPUs. */
function rank(input: PodInput, group: PodGroup): PodCommand {
  const sizes = groupSizes(input, group, { tensor: input.spec.vllmConfig?.tensorParallelSize });
  const ranks = [
    "--nnodes",
    String(group.size),
    "--node-rank",
    WORKER_INDEX,
    "--master-addr",
    LEADER_ADDRESS,
  ];
  return { ...vllmServe(input, sizes), expanded: ranks };
}

export const vllm: EngineDescription = {
  runtime: "vllm",
  formats: ["safetensors"],
  accelerators: ["cuda", "rocm", "intel", "cpu"],
  apiPaths: [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/embeddings",
    "/v1/rerank",
    "/v2/rerank",
    "/rerank",
    "/v1/score",
    "/score",
    "/classify",
    "/pooling",
    "/tokenize",
    "/detokenize",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    "/v1/models",
  ],
  isSharedDaemon: false,
  arguments: VLLM_ARGUMENTS,
  pod: vllmPod,
  group: vllmGroup,
  traces: { programs: ["vllm"], processes: /^(vllm|VLLM::)/, formula: "vllm", units: "vllm*" },
};
