import { expect, test } from "vitest";
import { createDensity } from "../../../fitness/density/density.ts";
import { createFitIndex } from "../../../fitness/density/fits.ts";
import { A100S, aNode } from "../../../fitness/density/fixtures/fleet.ts";
import { memoryOfPod, memoryOfReplica } from "../../../fitness/density/held-memory.ts";
import { machineFromHost, machineFromNode } from "../../../fitness/density/place.ts";
import type { Condition } from "../../../src/api/conditions.ts";
import { aMac, aPod, aReplica, condition, GIB, SINCE } from "../fixtures/objects.ts";
import { hostRow } from "./host.ts";
import { machineFigures } from "./machine.ts";
import { nodeHostRow } from "./node.ts";

const NOW = { wallMs: Date.parse("2026-11-27T10:00:00Z"), monotonicMs: 100_000 };
const READY = condition("Ready", "True", "AgentReady");
const REACHABLE = condition("Reachable", "True", "HostReachable");

function rowOf(conditions: readonly Condition[], fields = {}, replicas = [aReplica("chat-0")]) {
  const host = aMac("mac-1", conditions, fields);
  const density = createDensity(createFitIndex([]));
  density.setPlace("Host", "mac-1", machineFromHost(host));
  for (const replica of replicas)
    density.setHeld(replica.metadata.name, { kind: "Host", name: "mac-1" }, memoryOfReplica(replica));
  return hostRow({ host, replicas, figures: machineFigures(density, "Host", "mac-1", NOW) });
}

test("a ready Mac shows its machine, its budget with the reserve, and the claim of each replica, largest first", () => {
  const claim = (name: string, gib: number) =>
    aReplica(
      name,
      { phase: "Ready", memory: { footprintBytes: 2 * GIB } },
      { "spec.memory.claimBytes": gib * GIB, namespace: "team-a" },
    );
  const fields = { "spec.memory.systemReserve": "8Gi" };
  expect(rowOf([READY, REACHABLE], fields, [claim("chat-0", 4), claim("chat-1", 20)])).toMatchObject({
    state: { word: "Ready", level: "ok" },
    attention: undefined,
    chip: "Apple M4 Max",
    os: "macOS 26.1",
    backend: "Metal",
    cores: 16,
    budgetBytes: 48 * GIB,
    reserveBytes: 8 * GIB,
    leftBytes: 16 * GIB,
    claims: [
      { service: "team-a/chat", replica: "chat-1", phase: "Ready", bytes: 20 * GIB, usedBytes: 2 * GIB },
      { replica: "chat-0", bytes: 4 * GIB },
    ],
    engines: [{ name: "llamacpp", version: "b6000" }],
    address: "192.168.1.20",
    lastSeen: undefined,
    fits: 0,
  });
});

const UNREACHABLE = condition("Reachable", "False", "HostUnreachable", "no renewal of the agent's Lease");

test.each([
  ["Unreachable", "bad", "HostUnreachable", [READY, UNREACHABLE], {}],
  ["Lost", "bad", "HostLost", [UNREACHABLE, condition("Lost", "True", "HostLost", "lost")], {}],
  [
    "Not ready",
    "bad",
    "HostAddressMissing",
    [REACHABLE, condition("Ready", "False", "HostAddressMissing", "none")],
    {},
  ],
  ["Starting", "busy", undefined, [REACHABLE, condition("Ready", "False", "Starting")], {}],
  ["Not joined", "idle", undefined, [condition("Reachable", "Unknown", "HostNeverSeen", "…")], {}],
  ["Cordoned", "idle", undefined, [READY, REACHABLE], { "spec.unschedulable": true }],
  [
    "Draining",
    "busy",
    undefined,
    [READY, REACHABLE, condition("Drained", "False", "DrainInProgress")],
    { "spec.drain": true },
  ],
  [
    "Drain blocked",
    "warn",
    "DrainBlocked",
    [READY, REACHABLE, condition("Drained", "False", "DrainBlocked", "2 left")],
    { "spec.drain": true },
  ],
  [
    "Drained",
    "idle",
    undefined,
    [UNREACHABLE, condition("Drained", "True", "HostDrained")],
    { "spec.drain": true },
  ],
  [
    "Flapping",
    "warn",
    "HostFlapping",
    [READY, REACHABLE, condition("Flapping", "True", "HostFlapping", "3 changes")],
    {},
  ],
  [
    "Ready",
    "ok",
    "Critical",
    [READY, REACHABLE, condition("MemoryPressure", "True", "Critical", "the OS reports it")],
    {},
  ],
  ["Ready", "ok", undefined, [READY, REACHABLE, condition("RestartAtRisk", "True", "FileVaultOn", "on")], {}],
] as const)("a host is %s (%s), with attention %s", (word, level, reason, conditions, fields) => {
  const { state, attention } = rowOf(conditions, fields);
  expect(state).toEqual({ word, level });
  expect(attention?.reason).toBe(reason);
});

test("attention to a host has the words of its condition and the remedy of the catalog, and no command for what its page shows", () => {
  expect(rowOf([READY, UNREACHABLE]).attention).toEqual({
    level: "bad",
    reason: "HostUnreachable",
    message: "no renewal of the agent's Lease",
    remedy: "check that the host is powered on and connected, and that its agent runs",
    command: undefined,
    since: SINCE,
  });
});

test("a pod claims the memory of its GPUs on a node with GPUs, and one that has exited claims none", () => {
  const node = aNode("gpu-1", { ...A100S });
  const ended = { ...aPod("old", "chat", "gpu-1", 1), status: { phase: "Failed" as const } };
  const pods = [aPod("chat-x", "chat", "gpu-1", 2), ended];
  const density = createDensity(createFitIndex([]));
  density.setPlace("Node", "gpu-1", machineFromNode(node));
  density.setHeld("chat-x", { kind: "Node", name: "gpu-1" }, memoryOfPod(pods[0] as (typeof pods)[0]));
  const row = nodeHostRow({ node, pods, figures: machineFigures(density, "Node", "gpu-1", NOW) });
  expect(row).toMatchObject({ kind: "Node", state: { word: "Ready" }, gpus: 4, backend: "CUDA" });
  expect(row.claims).toEqual([
    { service: "default/chat", replica: "chat-x", phase: "Ready", bytes: row.budgetBytes / 2 },
  ]);
  expect(row.leftBytes).toBe(row.budgetBytes / 2);
});

test("a node that is not ready is bad with our pods on it, and a warning without", () => {
  const node = aNode("gpu-1", { isReady: false });
  const of = (pods: ReturnType<typeof aPod>[]) => nodeHostRow({ node, pods, figures: undefined }).attention;
  expect(of([aPod("chat-x", "chat", "gpu-1")])).toMatchObject({
    level: "bad",
    reason: "NodeNotReady",
    message: "kubelet says so",
    command: undefined,
  });
  expect(of([])).toMatchObject({ level: "warn" });
});
