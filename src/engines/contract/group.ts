/** A runtime as a group of pods that serve one copy of the model: a leader, which answers requests, and its workers. */
import { MetalbridgeError } from "../../api/errors.ts";
import type { PodCommand, PodInput } from "./pod.ts";

/** Kubernetes replaces these references in arguments. LeaderWorkerSet sets the variables in every container. */
export const LEADER_ADDRESS = "$(LWS_LEADER_ADDRESS)";
export const WORKER_INDEX = "$(LWS_WORKER_INDEX)";

export interface PodGroup {
  /** Number of pods, including the leader. */
  readonly size: number;
  /** End of the DNS names of the pods: the group's Service and namespace. */
  readonly domain: string;
}

export interface GroupRuntime {
  /** Throws MetalbridgeError for unsupported settings. */
  readonly leader: (input: PodInput, group: PodGroup) => PodCommand;
  readonly worker: (input: PodInput, group: PodGroup) => PodCommand;
  /** Why groups need another image than the pinned one. */
  readonly needsOwnImage?: string;
  /** TCP port of the workers to which the leader connects once, when it starts: it must wait until they listen. */
  readonly connectsTo?: number;
  /** TCP port on which workers listen for any number of clients. Absent: only their process shows that they work. */
  readonly workerPort?: number;
  /** The leader sends each worker its part of the weights, so workers mount none. */
  readonly isFedByLeader?: true;
  /** The leader starts the processes of its workers through ssh, with the key of the service. */
  readonly usesSsh?: true;
}

/** Mount path of the service's ssh key in the containers of a group. */
export const SSH_KEY_FILE = "/etc/metalbridge/ssh/ssh-privatekey";

/** Variable with the name of the leader's pod, with which the names of its workers begin. */
export const LEADER_POD = { name: "METALBRIDGE_POD", field: "metadata.name" } as const;

/** DNS names of the workers, for arguments of the leader, which needs the variable LEADER_POD. */
export function workerAddresses({ size, domain }: PodGroup): string[] {
  return Array.from({ length: size - 1 }, (_, index) => `$(${LEADER_POD.name})-${index + 1}.${domain}`);
}

/** Number of tensor and pipeline shards of a copy of the model, which must use all GPUs of the group. Those of a flavor are defaults. */
export function groupSizes(
  { gpus }: Pick<PodInput, "gpus">,
  { size }: PodGroup,
  own: { readonly tensor?: number | undefined; readonly pipeline?: number | undefined },
): { readonly tensor: number; readonly pipeline: number } {
  const total = Math.max(gpus.count, 1) * size;
  const given = {
    tensor: own.tensor ?? gpus.parallel?.tensor,
    pipeline: own.pipeline ?? gpus.parallel?.pipeline,
  };
  const pipeline = given.pipeline ?? (given.tensor === undefined ? size : total / given.tensor);
  const tensor = given.tensor ?? total / pipeline;
  if (Number.isInteger(tensor) && Number.isInteger(pipeline) && tensor * pipeline === total)
    return { tensor, pipeline };
  const stated = [
    given.tensor === undefined ? [] : `${given.tensor} tensor`,
    given.pipeline === undefined ? [] : `${given.pipeline} pipeline`,
  ].flat();
  const message = `${stated.join(" and ")} shards do not divide the ${total} GPUs of a group of ${size} pods`;
  throw new MetalbridgeError("GPURequestInvalid", message);
}
