/** TensorRT-LLM over several pods: mpirun in the leader starts one process per GPU, in the workers through ssh. */
import { type GroupRuntime, groupSizes, LEADER_POD, type PodGroup, SSH_KEY_FILE } from "../contract/group.ts";
import type { PodInput } from "../contract/pod.ts";
import { tensorrtServe } from "./pod.ts";

const SSH_PORT = 2222;

export const tensorrtLLMGroup: GroupRuntime = {
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
