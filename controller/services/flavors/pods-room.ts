/** Judges which nodes have room for the pods of a flavor. Pure. */
import { parseQuantity } from "../../../src/api/fields/quantity.ts";
import type { FlavorState } from "../../../src/capacity/flavors/plan.ts";
import type { Node, Pod } from "../../../src/kube/workload-objects.ts";
import { isLive, requestsOf } from "../../pods/pods.ts";
import { hasLabels } from "../../pods/workload/flavors/nodes.ts";
import { nodeAdmits } from "../../pods/workload/node-admission.ts";

export interface PodsRoomInput {
  /** Labels that nodes must have. */
  readonly nodeSelector: Readonly<Record<string, string>>;
  readonly tolerations: Parameters<typeof nodeAdmits>[1];
  /** GPUs by resource name. */
  readonly gpus: Readonly<Record<string, number>>;
  /** Number of replicas: pods, or groups. */
  readonly desired: number;
  readonly group?: { readonly size: number; readonly topologyKey?: string | undefined } | undefined;
  readonly nodes: readonly Node[];
  /** Pods of our services on a node. Other pods are not known. */
  readonly podsOn: (node: string) => readonly Pod[];
  readonly isOwn: (pod: Pod) => boolean;
  /** The reason why the model does not fit on a node, if that is known. */
  readonly misfit: (node: Node) => string | undefined;
}

const MAX_NAMED = 3;

export function podsRoom(input: PodsRoomInput): FlavorState {
  const { nodeSelector, gpus, desired, group, nodes } = input;
  const matching = nodes.filter(
    ({ metadata, status }) =>
      hasLabels(metadata.labels, nodeSelector) &&
      Object.entries(gpus).every(([name, count]) => allocatable(status, name) >= count),
  );
  if (matching.length === 0)
    return { at: "unmatched", message: `no node has ${describe(nodeSelector, gpus)}` };
  const slots: Slots[] = [];
  const open: string[] = [];
  const misses: string[] = [];
  for (const node of matching) {
    const { name } = node.metadata;
    const own = input.podsOn(name).filter((pod) => isLive(pod) && input.isOwn(pod)).length;
    const problem = problemOf(node, input);
    const pods = own + (problem === undefined ? freeSlots(node, input) : 0);
    slots.push({ node, pods });
    if (pods > 0) open.push(name);
    else misses.push(`${name}: ${problem ?? "its GPUs are in use"}`);
  }
  const replicas = replicasIn(slots, group);
  if (replicas > 0)
    return { at: "room", replicas: Math.min(replicas, desired), message: `room on ${listed(open)}` };
  return { at: "full", message: listed(open.length === 0 ? misses : [shortGroup(slots, group), ...misses]) };
}

/** Number of pods for which a node has room. */
interface Slots {
  readonly node: Node;
  readonly pods: number;
}

/** Groups with a topology occupy one domain each. */
function replicasIn(slots: readonly Slots[], group: PodsRoomInput["group"]): number {
  const { size, topologyKey } = group ?? { size: 1 };
  const counts = domainsOf(slots, topologyKey).map((pods) => Math.floor(pods / size));
  return topologyKey === undefined ? (counts[0] ?? 0) : counts.filter((count) => count > 0).length;
}

/** Number of pods for each value of the label; all nodes are one domain without a label. */
function domainsOf(slots: readonly Slots[], topologyKey: string | undefined): readonly number[] {
  const labeled = slots.filter(
    ({ node }) => topologyKey === undefined || node.metadata.labels?.[topologyKey] !== undefined,
  );
  const domains = Map.groupBy(labeled, ({ node }) => node.metadata.labels?.[topologyKey ?? ""]);
  return [...domains.values()].map((nodes) => nodes.reduce((sum, { pods }) => sum + pods, 0));
}

function shortGroup(slots: readonly Slots[], group: PodsRoomInput["group"]): string {
  const { size = 1, topologyKey } = group ?? {};
  const most = Math.max(0, ...domainsOf(slots, topologyKey));
  const where = topologyKey === undefined ? "" : ` on nodes with the same ${topologyKey}`;
  return `room for ${most} of the ${size} pods of a group${where}`;
}

function problemOf(node: Node, { tolerations, misfit }: PodsRoomInput): string | undefined {
  if (node.spec?.unschedulable === true) return "cordoned";
  return nodeAdmits(node, tolerations) ? misfit(node) : "not ready, or tainted";
}

/** Without GPUs, the scheduler alone knows the room. */
function freeSlots({ metadata, status }: Node, { gpus, desired, group, podsOn }: PodsRoomInput): number {
  const used = podsOn(metadata.name).filter(isLive).flatMap(requestsOf);
  const slots = Object.entries(gpus).map(([name, count]) => {
    const taken = used.reduce(
      (sum, [one, quantity]) => (one === name ? sum + (parseQuantity(quantity) ?? 0) : sum),
      0,
    );
    return Math.floor((allocatable(status, name) - taken) / count);
  });
  return Math.max(0, Math.min(desired * (group?.size ?? 1), ...slots));
}

function allocatable(status: Node["status"], name: string): number {
  return parseQuantity(status?.allocatable?.[name] ?? "0") ?? 0;
}

function describe(labels: Readonly<Record<string, string>>, gpus: Readonly<Record<string, number>>): string {
  const parts = [
    ...Object.entries(labels).map(([key, value]) => `${key}=${value}`),
    ...Object.entries(gpus).map(([name, count]) => `${name}: ${count}`),
  ];
  return parts.length === 0 ? "joined the cluster" : parts.join(", ");
}

function listed(texts: readonly string[]): string {
  const sorted = [...texts].sort();
  const more = sorted.length > MAX_NAMED ? `, and ${sorted.length - MAX_NAMED} more` : "";
  return `${sorted.slice(0, MAX_NAMED).join(", ")}${more}`;
}
