/** vLLM over several pods, with its own process group: every pod runs the server, and only the first one opens HTTP. */
import {
  type GroupRuntime,
  groupSizes,
  LEADER_ADDRESS,
  type PodGroup,
  WORKER_INDEX,
} from "../contract/group.ts";
import type { PodCommand, PodInput } from "../contract/pod.ts";
import { vllmServe } from "./pod.ts";

export const vllmGroup: GroupRuntime = {
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
