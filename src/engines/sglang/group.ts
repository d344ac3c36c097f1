/** SGLang over several pods: every pod runs the server, and only the first one answers requests. */
import {
  type GroupRuntime,
  groupSizes,
  LEADER_ADDRESS,
  type PodGroup,
  WORKER_INDEX,
} from "../contract/group.ts";
import type { PodCommand, PodInput } from "../contract/pod.ts";
import { givenSizes, sglangServer } from "./pod.ts";

const RENDEZVOUS_PORT = 20_000;

export const sglangGroup: GroupRuntime = { leader: rank, worker: rank };

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
