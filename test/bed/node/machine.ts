/**
 * What a node runs in: mount and PID namespaces of its own, in the network namespace of a station. Whatever a node mounts
 * exists only there, and everything that runs there ends with the first process, also when the test run is killed.
 */
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { tailOf } from "../../../local/control-plane/process/log-tail.ts";
import { startWatched, type WatchedChild } from "../../../local/control-plane/process/watched-child.ts";
import { until } from "../until.ts";

export interface Machine {
  /** Before a command line: runs it there, as root. */
  readonly inside: readonly string[];
  /** A path of the node, as this machine can open it. */
  readonly pathOf: (file: string) => string;
  /** A program of the node, which is not restarted; its log is `<name>.log` in the node's folder. */
  readonly start: (
    name: string,
    command: readonly string[],
    env?: Readonly<Record<string, string>>,
  ) => WatchedChild;
  /** SIGKILL to everything at once, as when a machine loses power. Resolves when nothing is left. */
  readonly kill: () => Promise<void>;
}

/** kubelet would set these for the whole machine; there it finds them set. */
const SYSCTLS = {
  "kernel/keys/root_maxbytes": 25_000_000,
  "kernel/keys/root_maxkeys": 1_000_000,
  "kernel/panic": 10,
  "kernel/panic_on_oops": 1,
  "vm/overcommit_memory": 1,
  "vm/panic_on_oom": 0,
};

/** Fixed places that containerd and kubelet write to are empty there. */
const SETUP = `
set -e
mount --make-rshared /
for folder in /run /var/lib /var/log; do mount -t tmpfs node "$folder"; done
for name in ${Object.keys(SYSCTLS).join(" ")}; do
  if [ -e "/proc/sys/$name" ]; then mount --bind "$1/sysctl/$name" "/proc/sys/$name"; fi
done
echo 1 > /proc/sys/net/ipv4/ip_forward
echo > "$1/started"
# Reaps what its programs leave.
while :; do sleep 2147483647 & wait; done
`;

/**
 * Resolves when programs can be started. `folder` is the node's own, and visible inside at the same path; `network`, before a
 * command line, runs it in the network namespace.
 */
export async function startMachine(network: readonly string[], folder: string): Promise<Machine> {
  for (const [name, value] of Object.entries(SYSCTLS)) {
    const file = path.join(folder, "sysctl", name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, `${value}\n`);
  }
  const logFile = path.join(folder, "machine.log");
  const started = path.join(folder, "started");
  // An earlier boot left it.
  rmSync(started, { force: true });
  const common = { cwd: folder, env: {}, graceMs: 0, orphanGraceMs: 0 };
  const unshare = ["unshare", "--mount", "--propagation=private", "--pid", "--mount-proc", "--fork"];
  const first = [...unshare, "--kill-child=KILL", "/bin/sh", "-c", SETUP, "sh", folder];
  const pidFile = path.join(folder, "pid");
  const keepPid = ["-c", 'echo $$ > "$0" && exec "$@"', pidFile];
  const args = [...keepPid, ...network, ...first];
  const machine = startWatched({ ...common, name: "machine", logFile, program: "/bin/sh", args });
  let isGone = false;
  void machine.ended.then(() => {
    isGone = true;
  });
  await until(() => statSync(started), { everyMs: 10, ended: machine.ended }).catch((cause: unknown) => {
    machine.signal("KILL");
    throw new Error(`the node's namespaces cannot be made: ${tailOf(logFile, 2_000)}`, { cause });
  });
  const pid = firstProcess(readFileSync(pidFile, "utf8").trim());
  const inside = ["nsenter", `--target=${pid}`, "--mount", "--net", "--pid", "--"];
  return {
    inside,
    pathOf: (file) => `/proc/${pid}/root${file}`,
    start: (name, command, env = {}) => {
      const log = path.join(folder, `${name}.log`);
      const entered = ["-c", 'exec "$@"', "sh", ...inside, ...command];
      return startWatched({ ...common, name, env, logFile: log, program: "/bin/sh", args: entered });
    },
    kill: async () => {
      if (!isGone) process.kill(pid, "SIGKILL");
      // unshare ends once it has reaped the first process, which ends after all others.
      await machine.ended;
    },
  };
}

/** The child of unshare, as this machine numbers it. */
function firstProcess(unshare: string): number {
  return Number(readFileSync(`/proc/${unshare}/task/${unshare}/children`, "utf8"));
}
