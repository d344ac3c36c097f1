/** containerd with runc and a point-to-point network for each pod, inside a node's machine. */
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import { tailOf } from "../../../local/control-plane/process/log-tail.ts";
import type { WatchedChild } from "../../../local/control-plane/process/watched-child.ts";
import { run } from "../run.ts";
import { until } from "../until.ts";
import type { Machine } from "./machine.ts";
import type { NodeParts } from "./parts.ts";

export interface ContainerdOptions {
  readonly folder: string;
  readonly parts: NodeParts;
  /** Undefined where no pod will run. */
  readonly podSubnet?: string;
}

export const PAUSE_IMAGE = "registry.k8s.io/pause:3.10";

export function socketIn(folder: string): string {
  return path.join(folder, "run", "containerd.sock");
}

/** Where it keeps images. */
export function rootIn(folder: string): string {
  return path.join(folder, "containerd");
}

/** Resolves when it answers. */
export async function startContainerd(machine: Machine, options: ContainerdOptions): Promise<WatchedChild> {
  const { folder, parts, podSubnet } = options;
  const at = (name: string) => path.join(folder, name);
  for (const name of ["run", "cni", "containerd"]) mkdirSync(at(name), { recursive: true });
  writeFileSync(at("containerd.toml"), renderConfig(options));
  if (podSubnet !== undefined) writeFileSync(at("cni/10-node.conflist"), renderNetwork(folder, podSubnet));
  const command = [path.join(parts.folder, "containerd"), "--config", at("containerd.toml")];
  const env = { PATH: `${parts.folder}:/usr/sbin:/usr/bin:/sbin:/bin` };
  const containerd = machine.start("containerd", command, env);
  const { ended } = containerd;
  await until(() => connectOnce(socketIn(folder)), { everyMs: 10, ended }).catch((cause: unknown) => {
    const logged = tailOf(at("containerd.log"), 3_000);
    throw new Error(`containerd does not start; the end of its log:\n${logged}`, { cause });
  });
  return containerd;
}

/** `ctr` in the namespace of Kubernetes. */
export function ctr(parts: NodeParts, folder: string, ...args: readonly string[]): Promise<string> {
  const program = path.join(parts.folder, "ctr");
  return run(program, ["--address", socketIn(folder), "--namespace", "k8s.io", ...args]);
}

async function connectOnce(socket: string): Promise<void> {
  const connection = connect(socket);
  await once(connection, "connect");
  connection.destroy();
}

function renderConfig({ folder, parts }: ContainerdOptions): string {
  const cri = '[plugins."io.containerd.grpc.v1.cri"';
  return `version = 2
root = "${rootIn(folder)}"
state = "${path.join(folder, "run", "containerd")}"
disabled_plugins = [${UNUSED.map((name) => `"io.containerd.${name}"`).join(", ")}]
[grpc]
  address = "${socketIn(folder)}"
${cri}]
  sandbox_image = "${PAUSE_IMAGE}"
  disable_apparmor = true
  # Without CAP_SYS_RESOURCE no process may lower its own score.
  restrict_oom_score_adj = true
${cri}.containerd]
  snapshotter = "${parts.snapshotter}"
${cri}.cni]
  bin_dir = "${parts.folder}"
  conf_dir = "${path.join(folder, "cni")}"
${cri}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
${cri}.containerd.runtimes.runc.options]
  BinaryName = "${path.join(parts.folder, "runc")}"
`;
}

/** The first would make /opt/containerd. */
const UNUSED = [
  "internal.v1.opt",
  "snapshotter.v1.aufs",
  "snapshotter.v1.btrfs",
  "snapshotter.v1.devmapper",
  "snapshotter.v1.zfs",
  "tracing.processor.v1.otlp",
];

/** No bridge: traffic between pods of one node passes the node, so that kube-proxy's translation works in both directions. */
function renderNetwork(folder: string, subnet: string): string {
  const routes = [{ dst: "0.0.0.0/0" }];
  const dataDir = path.join(folder, "cni-state");
  const ipam = { type: "host-local", dataDir, ranges: [[{ subnet }]], routes };
  return JSON.stringify({
    cniVersion: "1.0.0",
    name: "pods",
    plugins: [{ type: "ptp", ipMasq: false, ipam }],
  });
}
