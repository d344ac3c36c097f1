/** NVIDIA's TensorRT-LLM, in pods. */

import { SLOTS_ARGUMENT } from "../contract/arguments.ts";
import type { EngineDescription } from "../contract/description.ts";
import { type GroupRuntime, groupSizes, LEADER_POD, type PodGroup, SSH_KEY_FILE } from "../contract/group.ts";
import {
  flagsOf,
  hubWeights,
  type PodCommand,
  type PodInput,
  type PodRuntime,
  parallelSizes,
  requireChatMode,
  tokensPerRequest,
} from "../contract/pod.ts";

/** TensorRT-LLM's own server as a pod. Arguments are those of 1.2. */
const tensorrtLLMPod: PodRuntime = {
  images: { cuda: "nvcr.io/nvidia/tensorrt-llm/release:1.2.1" },
  port: 8000,
  // The server supports IPv4 only.
  address: "0.0.0.0",
  healthPath: "/health",
  sharesMemory: true,
  offloaded: "needsGPU",
  settings: ["contextSize", "parallelSlots", "kvUnified", "chatTemplate", "extraArgs"],
  command: (input) => tensorrtServe(input, parallelSizes(input)),
};

/** The command that serves a copy of the model in so many shards. */
function tensorrtServe(
  input: PodInput,
  { tensor, pipeline }: { readonly tensor: number; readonly pipeline: number },
): PodCommand & { readonly command: readonly string[] } {
  requireChatMode(input, "tensorrt-llm");
  const { spec, settings, gpus } = input;
  const { name, revision, env } = hubWeights(input);
  return {
    command: ["trtllm-serve", "serve"],
    args: [
      name,
      ...flagsOf({
        "--revision": revision,
        "--host": input.address,
        "--port": input.port,
        "--max_seq_len": tokensPerRequest(spec),
        "--max_batch_size": spec.parallelSlots,
        "--tensor_parallel_size": tensor > 1 ? tensor : undefined,
        "--pipeline_parallel_size": pipeline > 1 ? pipeline : undefined,
        "--free_gpu_memory_fraction": gpus.memoryShare,
        "--chat_template": input.chatTemplateFile,
      }),
      ...(settings.extraArgs ?? []),
    ],
    env,
  };
}

const SSH_PORT = 2222;

/** TensorRT-LLM over several pods: mpirun in the leader starts one process per GPU, in the workers through ssh. */
const tensorrtLLMGroup: GroupRuntime = {
  needsOwnImage:
    "the pinned image of tensorrt-llm has no ssh server: set spec.image to an image with openssh-server and a user with ID 65532",
  connectsTo: SSH_PORT,
  workerPort: SSH_PORT,
  usesSsh: true,
  leader: (input, group) => {
    const { command, args, env } = tensorrtServe(input, groupSizes(input, group, {}));
    const variables = [...env.map(({ name }) => name), "HOME", "USER"];
    return {
      command: ["/bin/bash", "-c", `${SSH_SERVER} &\n${mpirun(input, group, variables)}`, "leader"],
      args: ["trtllm-llmapi-launch", ...command, ...args],
      env: [...env, LEADER_POD],
    };
  },
  worker: (input, group) => ({
    command: ["/bin/bash", "-c", `exec ${SSH_SERVER}`],
    args: [],
    env: tensorrtServe(input, groupSizes(input, group, {})).env,
  }),
};

/** Files of ssh must belong to the user, and other users must not be able to read them, which files of a Secret are not. */
const SSH_SERVER = `/bin/bash -ec '
mkdir -p -m 700 /tmp/ssh
cp ${SSH_KEY_FILE} /tmp/ssh/key
chmod 600 /tmp/ssh/key
ssh-keygen -y -f /tmp/ssh/key > /tmp/ssh/authorized_keys
[ -e /tmp/ssh/host ] || ssh-keygen -q -t ed25519 -N "" -f /tmp/ssh/host
exec /usr/sbin/sshd -D -e -p ${SSH_PORT} -h /tmp/ssh/host -o PidFile=none -o UsePAM=no -o PasswordAuthentication=no -o StrictModes=no -o AuthorizedKeysFile=/tmp/ssh/authorized_keys
'`;

/** The first process of the first host answers requests. "$(" would be a reference of Kubernetes. */
function mpirun({ gpus }: PodInput, { size, domain }: PodGroup, variables: readonly string[]): string {
  const slots = Math.max(gpus.count, 1);
  const workers = Array.from(
    { length: size - 1 },
    (_, index) => `$${LEADER_POD.name}-${index + 1}.${domain}`,
  );
  const hosts = ["$LWS_LEADER_ADDRESS", ...workers].map((host) => `${host}:${slots}`);
  const ssh = `-p ${SSH_PORT} -i /tmp/ssh/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null`;
  return [
    "until [ -s /tmp/ssh/authorized_keys ]; do sleep 1; done",
    `exec mpirun -n ${slots * size} --host "${hosts.join(",")}" --mca plm_rsh_args "${ssh}" --mca plm_rsh_no_tree_spawn 1 ${variables.map((name) => `-x ${name}`).join(" ")} "$@"`,
  ].join("\n");
}

export const tensorrtLLM: EngineDescription = {
  runtime: "tensorrt-llm",
  formats: ["safetensors"],
  accelerators: ["cuda"],
  apiPaths: ["/v1/chat/completions", "/v1/completions", "/v1/models"],
  isSharedDaemon: false,
  modes: ["chat"],
  // --max_seq_len is the context of one request, and contextSize that of all slots.
  arguments: { settings: { "--max-batch-size": SLOTS_ARGUMENT } },
  pod: tensorrtLLMPod,
  group: tensorrtLLMGroup,
};
