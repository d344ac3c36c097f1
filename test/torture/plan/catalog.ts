/** Every fault that can be drawn: how often, on what, for how long, and what else it must not meet. */

export const HOSTS = ["mac-a", "mac-b", "mac-c"] as const;
export type HostName = (typeof HOSTS)[number];

/** `steady` keeps its size, `elastic` is scaled, `brief` is deleted and made again. */
export const SERVICES = ["steady", "elastic", "brief"] as const;
/** Beside those where there are nodes: `podded` runs in pods, `mixed` on hosts and in pods. */
export const NODE_SERVICES = ["podded", "mixed"] as const;
export type ServiceName = (typeof SERVICES | typeof NODE_SERVICES)[number];

/** `rollout.drainSeconds` of every service. */
export const DRAIN_SECONDS = 15;

export function servicesWith(nodes: number): readonly ServiceName[] {
  return nodes > 0 ? [...SERVICES, ...NODE_SERVICES] : SERVICES;
}

export function nodeNames(nodes: number): readonly string[] {
  return Array.from({ length: nodes }, (_, index) => `node-${index + 1}`);
}

export interface Duration {
  readonly leastMs: number;
  readonly mostMs: number;
}

export interface FaultEntry {
  readonly kind: string;
  readonly weight: number;
  readonly on: "host" | "cluster" | "service" | "node";
  /** Services it may be drawn for; absent: all. */
  readonly services?: readonly ServiceName[];
  /** Two faults with one lock never overlap; `*` stands for the host or the service. */
  readonly lock: string;
  /** From injection to healing; absent: nothing to heal. */
  readonly lasts?: Duration;
  /** In the long rounds: past Leases, hung engines and lost hosts. */
  readonly lastsLong?: Duration;
}

const seconds = (least: number, most: number): Duration => ({ leastMs: least * 1_000, mostMs: most * 1_000 });

export const CATALOG = [
  { kind: "engine-kill", weight: 6, on: "host", lock: "engine:*" },
  {
    kind: "engine-pause",
    weight: 3,
    on: "host",
    lock: "engine:*",
    lasts: seconds(1, 8),
    lastsLong: seconds(45, 60),
  },
  { kind: "shim-kill", weight: 3, on: "host", lock: "engine:*" },
  { kind: "shim-pause", weight: 2, on: "host", lock: "engine:*", lasts: seconds(2, 10) },
  {
    kind: "agent-kill",
    weight: 5,
    on: "host",
    lock: "agent:*",
    lasts: seconds(0, 8),
    lastsLong: seconds(55, 75),
  },
  {
    kind: "agent-pause",
    weight: 3,
    on: "host",
    lock: "agent:*",
    lasts: seconds(2, 12),
    lastsLong: seconds(50, 70),
  },
  { kind: "agent-upgrade", weight: 3, on: "host", lock: "agent:*", lasts: seconds(0, 2) },
  { kind: "agent-clock-step", weight: 2, on: "host", lock: "agent:*", lasts: seconds(5, 20) },
  { kind: "controller-kill", weight: 4, on: "cluster", lock: "controller", lasts: seconds(0, 8) },
  {
    kind: "controller-pause",
    weight: 3,
    on: "cluster",
    lock: "controller",
    lasts: seconds(2, 10),
    lastsLong: seconds(20, 30),
  },
  { kind: "controller-clock-step", weight: 2, on: "cluster", lock: "controller", lasts: seconds(5, 20) },
  {
    kind: "api-stop",
    weight: 3,
    on: "cluster",
    lock: "api",
    lasts: seconds(2, 12),
    lastsLong: seconds(45, 60),
  },
  { kind: "api-kill", weight: 2, on: "cluster", lock: "api" },
  { kind: "api-compaction", weight: 2, on: "cluster", lock: "api", lasts: seconds(1, 4) },
  {
    kind: "network-cut",
    weight: 4,
    on: "host",
    lock: "network:*",
    lasts: seconds(2, 15),
    lastsLong: seconds(60, 80),
  },
  { kind: "network-slow", weight: 2, on: "host", lock: "network:*", lasts: seconds(5, 20) },
  { kind: "network-lossy", weight: 2, on: "host", lock: "network:*", lasts: seconds(5, 20) },
  {
    kind: "lease-expiry",
    weight: 2,
    on: "host",
    lock: "network:*",
    lasts: seconds(5, 20),
    lastsLong: seconds(50, 75),
  },
  { kind: "address-change", weight: 2, on: "host", lock: "network:*" },
  { kind: "disk-full", weight: 3, on: "host", lock: "disk:*", lasts: seconds(5, 20) },
  { kind: "new-revision", weight: 6, on: "service", services: ["steady", "elastic"], lock: "service:*" },
  { kind: "priority-change", weight: 1, on: "service", services: ["steady", "elastic"], lock: "service:*" },
  { kind: "scale", weight: 5, on: "service", services: ["elastic"], lock: "service:*" },
  {
    kind: "recreate",
    weight: 3,
    on: "service",
    services: ["brief"],
    lock: "service:*",
    lasts: seconds(0, 6),
  },
  {
    kind: "bad-revision",
    weight: 2,
    on: "service",
    services: ["steady", "elastic"],
    lock: "service:*",
    lasts: seconds(4, 15),
  },
  { kind: "drain", weight: 4, on: "host", lock: "cordon:*", lasts: seconds(5, 20) },
  { kind: "cordon", weight: 1, on: "host", lock: "cordon:*", lasts: seconds(5, 20) },
] as const satisfies readonly FaultEntry[];

/** Beside those, where replicas share a daemon behind the gate. */
export const DAEMON_FAULTS = [
  { kind: "gate-kill", weight: 5, on: "host", lock: "gate:*" },
  {
    kind: "runner-pause",
    weight: 3,
    on: "host",
    lock: "engine:*",
    lasts: seconds(1, 8),
    lastsLong: seconds(45, 60),
  },
] as const satisfies readonly FaultEntry[];

/** Beside those, where a farm has nodes. */
export const NODE_FAULTS = [
  { kind: "pod-kill", weight: 5, on: "service", services: NODE_SERVICES, lock: "pod:*" },
  { kind: "pod-delete", weight: 4, on: "service", services: NODE_SERVICES, lock: "pod:*" },
  {
    kind: "node-kill",
    weight: 6,
    on: "node",
    lock: "node:*",
    lasts: seconds(3, 15),
    lastsLong: seconds(45, 60),
  },
  {
    kind: "kubelet-stop",
    weight: 4,
    on: "node",
    lock: "node:*",
    lasts: seconds(3, 15),
    lastsLong: seconds(45, 60),
  },
  { kind: "node-cordon", weight: 2, on: "node", lock: "node:*", lasts: seconds(5, 20) },
  { kind: "node-drain", weight: 4, on: "node", lock: "node:*", lasts: seconds(10, 20) },
  { kind: "pods-restart", weight: 4, on: "service", services: NODE_SERVICES, lock: "service:*" },
  { kind: "pods-revision", weight: 4, on: "service", services: NODE_SERVICES, lock: "service:*" },
  { kind: "pods-scale", weight: 4, on: "service", services: NODE_SERVICES, lock: "service:*" },
] as const satisfies readonly FaultEntry[];

/** Beside those in every farm, one after the other. */
export const GATEWAY_FAULTS = [
  { kind: "envoy-kill", weight: 1, on: "cluster", lock: "gateway", lasts: seconds(0, 1) },
  { kind: "key-revoke", weight: 1, on: "cluster", lock: "gateway" },
  { kind: "gateway-pause", weight: 1, on: "cluster", lock: "gateway", lasts: seconds(1, 6) },
  { kind: "gateway-kill", weight: 1, on: "cluster", lock: "gateway", lasts: seconds(0, 2) },
  { kind: "gateway-disk-full", weight: 1, on: "cluster", lock: "gateway", lasts: seconds(2, 6) },
] as const satisfies readonly FaultEntry[];

/** What all hosts of a farm run. */
export const ENGINES = ["llamacpp", "ollama"] as const;
export type EngineName = (typeof ENGINES)[number];

export type FaultKind = (
  | typeof CATALOG
  | typeof DAEMON_FAULTS
  | typeof NODE_FAULTS
  | typeof GATEWAY_FAULTS
)[number]["kind"];
type Entry = FaultEntry & { readonly kind: FaultKind };

/** Every kind of fault that any farm has. */
export const ALL_FAULTS: readonly Entry[] = [...CATALOG, ...DAEMON_FAULTS, ...NODE_FAULTS, ...GATEWAY_FAULTS];

/** Those that are drawn by weight. */
export function faultsFor(engine: EngineName, nodes = 0): readonly Entry[] {
  return [...CATALOG, ...(engine === "ollama" ? DAEMON_FAULTS : []), ...(nodes > 0 ? NODE_FAULTS : [])];
}
