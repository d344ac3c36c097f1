/** A real node: kubelet, containerd and kube-proxy in a machine of their own. */
import { mkdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { tailOf } from "../../../local/control-plane/process/log-tail.ts";
import type { WatchedChild } from "../../../local/control-plane/process/watched-child.ts";
import { type ApiAccess, callApi } from "../../../local/control-plane/request.ts";
import type { NodeImage } from "../../../scripts/images/for-tests.ts";
import { startKubeProxy } from "../kube-proxy.ts";
import type { Network, Station } from "../network.ts";
import type { Objects } from "../objects.ts";
import { run } from "../run.ts";
import { until } from "../until.ts";
import { findCgroup, makeCgroups, pidsIn, removeCgroups } from "./cgroups.ts";
import { ctr, startContainerd } from "./containerd.ts";
import { copyImages } from "./images.ts";
import { startKubelet } from "./kubelet.ts";
import { type Machine, startMachine } from "./machine.ts";
import { type NodeParts, nodeParts } from "./parts.ts";
import { podSubnetOf, routePods } from "./pods-network.ts";

export interface NodeOptions {
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly taints?: readonly { readonly key: string; readonly value?: string; readonly effect: string }[];
  /** Shorthand for the label. */
  readonly zone?: string;
  /** Beside what kubelet finds: { "nvidia.com/gpu": "1" }. No device is behind it. */
  readonly capacity?: Readonly<Record<string, string>>;
  /** Beside those that every node has; imported once it has booted. */
  readonly images?: readonly NodeImage[];
  /** How soon its loss is noticed: with --node-monitor-grace-period of kube-controller-manager, which is longer. */
  readonly leaseSeconds?: number;
  /** Longest pause between two starts of a container that exits: a crash loop of seconds. */
  readonly backOffSeconds?: number;
}

export interface NodeCluster {
  readonly kubeconfig: string;
  readonly objects: Objects;
  readonly access: ApiAccess;
}

export interface RealNode extends AsyncDisposable {
  readonly name: string;
  readonly address: string;
  readonly podSubnet: string;
  /** The node's own: logs of its programs, and everything that pods write. */
  readonly folder: string;
  /** Before a command line: runs it as root on the node. */
  readonly inside: () => readonly string[];
  /** Runs it so, and resolves with its output. */
  readonly run: (...command: readonly string[]) => Promise<string>;
  /** A path of the node, as this machine can open it. */
  readonly pathOf: (file: string) => string;
  /** Processes of a pod's running containers, as this machine numbers them. */
  readonly containers: (namespace: string, pod: string) => Promise<ReadonlyMap<string, readonly number[]>>;
  /** From an OCI layout as a tar. */
  readonly import: (file: string) => Promise<void>;
  /** Pods run on, and nothing reports or changes them. */
  readonly stopKubelet: () => Promise<void>;
  readonly startKubelet: () => void;
  /** Everything at once, as when a machine loses power. */
  readonly kill: () => Promise<void>;
  /** After `kill`: boots with the disk as it was. Resolves when it is ready. */
  readonly boot: () => Promise<void>;
}

/** Booted, with images, and in no cluster yet: that much can be done while a control plane starts. */
export interface PreparedNode extends AsyncDisposable {
  readonly join: (cluster: NodeCluster) => Promise<RealNode>;
}

/** Flags of an API server that real nodes join. */
export const API_SERVER_ARGS = [
  // Names of nodes resolve nowhere.
  "--kubelet-preferred-address-types=InternalIP",
  // It reaches pods, and no address of a Service.
  "--enable-aggregator-routing=true",
  // Clients in pods reach it through the Service `kubernetes`.
  "--endpoint-reconciler-type=lease",
];

/** `images` is what `prepareImages` gave. Disposal leaves nothing of the node on this machine. */
export async function prepareNode(
  network: Network,
  options: NodeOptions,
  images: string,
): Promise<PreparedNode> {
  await using stack = new AsyncDisposableStack();
  const station = await network.add(options.name);
  await routePods(network, station);
  const folder = path.join(tmpdir(), station.namespace);
  const place: Place = { station, folder, parts: nodeParts() };
  mkdirSync(folder);
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  stack.defer(() => removeCgroups(station.namespace));
  copyImages(images, folder);
  const power: Power = { machine: await powerOn(place) };
  stack.defer(() => power.machine.kill());
  for (const { file } of options.images ?? []) await ctr(place.parts, folder, "images", "import", file);
  const kept = stack.move();
  const dispose = () => kept.disposeAsync();
  return {
    join: async (cluster) => ({
      ...(await join(place, power, options, cluster)),
      [Symbol.asyncDispose]: dispose,
    }),
    [Symbol.asyncDispose]: dispose,
  };
}

interface Place {
  readonly station: Station;
  readonly folder: string;
  readonly parts: NodeParts;
}

interface Power {
  machine: Machine;
}

async function powerOn({ station, folder, parts }: Place): Promise<Machine> {
  // Neither outlives a boot.
  rmSync(path.join(folder, "run"), { recursive: true, force: true });
  await removeCgroups(station.namespace);
  makeCgroups(station.namespace);
  const machine = await startMachine(station.inside, folder);
  try {
    await startContainerd(machine, { folder, parts, podSubnet: podSubnetOf(station) });
    return machine;
  } catch (error) {
    await machine.kill();
    throw error;
  }
}

async function join(place: Place, power: Power, options: NodeOptions, cluster: NodeCluster) {
  const { station, folder, parts } = place;
  const { kubeconfig, access } = cluster;
  const { namespace: cgroup, address } = station;
  const { name: nodeName, leaseSeconds, backOffSeconds } = options;
  const at = { folder, parts, nodeName, address, kubeconfig, cgroup };
  const startTheKubelet = () => startKubelet(power.machine, { ...at, leaseSeconds, backOffSeconds });
  let kubelet: WatchedChild;
  const startPrograms = async () => {
    const since = Date.now();
    kubelet = startTheKubelet();
    const inside = { ...station, inside: power.machine.inside };
    const dir = path.join(folder, "kube-proxy");
    const isReady = () => untilReady(access, nodeName, since, path.join(folder, "kubelet.log"));
    await Promise.all([isReady(), startKubeProxy({ kubeconfig, station: inside, nodeName, dir })]);
  };
  await register(access, options, address);
  await startPrograms();
  // kubelet sets resources that it does not know to none when it starts.
  await addCapacity(access, options);
  return {
    name: nodeName,
    address,
    folder,
    podSubnet: podSubnetOf(station),
    inside: () => power.machine.inside,
    run: (...command: readonly string[]) => {
      const [program = "nsenter", ...prefix] = power.machine.inside;
      return run(program, [...prefix, ...command]);
    },
    pathOf: (file: string) => power.machine.pathOf(file),
    containers: (namespace: string, pod: string) => containersOf(cluster.objects, cgroup, namespace, pod),
    import: async (file: string) => {
      await ctr(parts, folder, "images", "import", file);
    },
    stopKubelet: async () => {
      await kubelet.stop();
    },
    startKubelet: () => {
      kubelet = startTheKubelet();
    },
    kill: () => power.machine.kill(),
    boot: async () => {
      power.machine = await powerOn(place);
      await startPrograms();
      await addCapacity(access, options);
    },
  };
}

/** Before kubelet does, which can give no zone to a Node, and takes one that exists. */
async function register(access: ApiAccess, options: NodeOptions, address: string): Promise<void> {
  const { name, labels = {}, taints = [], zone } = options;
  const node = {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name, labels: { "topology.kubernetes.io/zone": zone, ...labels } },
    spec: { taints },
    // kube-proxy waits for it.
    status: { addresses: [{ type: "InternalIP", address }] },
  };
  const path = "/api/v1/nodes";
  const reply = await callApi(access, { method: "POST", path, body: JSON.stringify(node) });
  // One that comes back is known.
  if (reply.status !== 201 && reply.status !== 409) throw new Error(`node ${name}: ${reply.body}`);
}

async function addCapacity(access: ApiAccess, { name, capacity }: NodeOptions): Promise<void> {
  if (capacity === undefined) return;
  const body = JSON.stringify({ status: { capacity, allocatable: capacity } });
  const contentType = "application/merge-patch+json";
  const path = `/api/v1/nodes/${name}/status`;
  const reply = await callApi(access, { method: "PATCH", path, body, contentType });
  if (reply.status !== 200) throw new Error(`capacity of node ${name}: ${reply.body}`);
}

interface NodeSeen {
  readonly spec: { readonly taints?: readonly { readonly key: string }[] };
  readonly status?: {
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly lastHeartbeatTime: string;
    }[];
  };
}

/** Ready since then, which is given by the second, and without the taint of a new node. */
async function untilReady(access: ApiAccess, name: string, since: number, logFile: string): Promise<void> {
  await until(async () => {
    const { status, body } = await callApi(access, { method: "GET", path: `/api/v1/nodes/${name}` });
    if (status === 200 && isReady(JSON.parse(body) as NodeSeen, since)) return;
    throw new Error(
      `node ${name} is not ready: ${body}\nthe end of kubelet's log:\n${tailOf(logFile, 4_000)}`,
    );
  });
}

function isReady({ spec, status }: NodeSeen, since: number): boolean {
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  if (ready?.status !== "True" || Date.parse(ready.lastHeartbeatTime) < since - 1_000) return false;
  return !(spec.taints ?? []).some(({ key }) => key === "node.kubernetes.io/not-ready");
}

interface PodSeen {
  readonly status: {
    readonly containerStatuses?: readonly { readonly name: string; readonly containerID?: string }[];
  };
}

async function containersOf(
  objects: Objects,
  cgroup: string,
  namespace: string,
  pod: string,
): Promise<ReadonlyMap<string, readonly number[]>> {
  const { status }: PodSeen = await objects.get(namespace, `pod/${pod}`);
  const found = new Map<string, readonly number[]>();
  for (const { name, containerID } of status.containerStatuses ?? []) {
    const group = containerID && findCgroup(cgroup, containerID.replace("containerd://", ""));
    const pids = group ? pidsIn(group) : [];
    if (pids.length > 0) found.set(name, pids);
  }
  return found;
}
