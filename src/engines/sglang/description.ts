/** SGLang, in pods. */
import type { EngineDescription } from "../contract/description.ts";
import {
  type GroupRuntime,
  groupSizes,
  LEADER_ADDRESS,
  type PodGroup,
  WORKER_INDEX,
} from "../contract/group.ts";
import type { PodCommand, PodInput } from "../contract/pod.ts";
import { givenSizes, SGLANG_ARGUMENTS, sglangPod, sglangServer } from "./pod.ts";

const RENDEZVOUS_PORT = 20_000;

/** SGLang over several pods: every pod runs the server, and only the first one answers requests. */
const sglangGroup: GroupRuntime = { leader: rank, worker: rank };

function rank(input: PodInput, group: PodGroup): PodCommand {
  const { tensor, pipeline } = givenSizes(input);
  // Tensor shards over all GPUs unless the service asks for a pipeline.
  const given = { tensor, pipeline: tensor === undefined ? (pipeline ?? 1) : pipeline };
  return {
    ...sglangServer(input, groupSizes(input, group, given)),
    expanded: [
      ...["--dist-init-addr", `${LEADER_ADDRESS}:${RENDEZVOUS_PORT}`],
      ...["--nnodes", String(group.size), "--node-rank", WORKER_INDEX],
    ],
  };
}

export const sglang: EngineDescription = {
  runtime: "sglang",
  formats: ["safetensors"],
  accelerators: ["cuda", "rocm"],
  apiPaths: ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/generate", "/v1/models"],
  isSharedDaemon: false,
  modes: ["chat", "embedding"],
  arguments: SGLANG_ARGUMENTS,
  pod: sglangPod,
  group: sglangGroup,
  traces: { processes: /^sglang/ },
};
