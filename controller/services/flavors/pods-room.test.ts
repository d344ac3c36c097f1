/** The room for pods of a flavor on nodes. */
import { expect, test } from "vitest";
import type { Node, Pod } from "../../../src/kube/workload-objects.ts";
import { matchesFlavors } from "../../pods/workload/flavors/nodes.ts";
import { type PodsRoomInput, podsRoom } from "./pods-room.ts";

const GPU = "nvidia.com/gpu";

function node(
  name: string,
  gpus: number,
  more: { labels?: Record<string, string>; spec?: Node["spec"] } = {},
): Node {
  return {
    metadata: { name, labels: { gpu: "l40s", ...more.labels } },
    spec: more.spec,
    status: { allocatable: { [GPU]: String(gpus) }, conditions: [{ type: "Ready", status: "True" }] },
  } as Node;
}

function pod(uid: string, nodeName: string, gpus: number): Pod {
  const resources = { requests: { [GPU]: String(gpus) }, limits: { [GPU]: String(gpus) } };
  return {
    metadata: { name: uid, uid },
    spec: { nodeName, containers: [{ name: "engine", resources }] },
  } as unknown as Pod;
}

function room(
  nodes: readonly Node[],
  { pods = [], ...rest }: Partial<PodsRoomInput> & { pods?: readonly Pod[] } = {},
) {
  return podsRoom({
    nodeSelector: { gpu: "l40s" },
    tolerations: [],
    gpus: { [GPU]: 2 },
    desired: 4,
    nodes,
    podsOn: (name) => pods.filter(({ spec }) => spec.nodeName === name),
    isOwn: ({ metadata }) => metadata.uid === "own",
    misfit: () => undefined,
    ...rest,
  });
}

test("free GPUs count by the pods that are known, and those of the service too", () => {
  expect(room([node("a", 8)])).toEqual({ at: "room", replicas: 4, message: "room on a" });
  expect(room([node("a", 8)], { pods: [pod("x", "a", 5)] })).toMatchObject({ replicas: 1 });
  expect(room([node("a", 4)], { pods: [pod("own", "a", 2)] })).toMatchObject({ replicas: 2 });
  expect(room([node("a", 2)], { pods: [pod("x", "a", 1)] })).toEqual({
    at: "full",
    message: "a: its GPUs are in use",
  });
});

const RACK = "rack";
const inRack = (name: string, gpus: number, rack?: string) =>
  node(name, gpus, { labels: rack === undefined ? {} : { [RACK]: rack } });

test("a group has room once all of its pods have, and its own pods count", () => {
  const group = { size: 3 };
  expect(room([node("a", 4), node("b", 4)], { group })).toMatchObject({ at: "room", replicas: 1 });
  expect(room([node("a", 4), node("b", 8)], { group })).toMatchObject({ replicas: 2 });
  expect(room([node("a", 4)], { group })).toEqual({
    at: "full",
    message: "room for 2 of the 3 pods of a group",
  });
  const pods = [pod("own", "b", 2)];
  expect(room([node("a", 4), node("b", 2)], { group, pods })).toMatchObject({ replicas: 1 });
});

test("a group with a topology needs all its nodes in one domain, which it has for itself", () => {
  const group = { size: 2, topologyKey: RACK };
  const apart = [inRack("a", 2, "a"), inRack("b", 2, "b"), inRack("c", 4)];
  expect(room(apart, { group })).toEqual({
    at: "full",
    message: "room for 1 of the 2 pods of a group on nodes with the same rack",
  });
  expect(room([...apart, inRack("d", 8, "a"), inRack("e", 2, "b")], { group })).toMatchObject({
    at: "room",
    replicas: 2,
  });
});

test("a pod on a cordoned node may stay, and no other one joins it", () => {
  const cordoned = node("a", 8, { spec: { unschedulable: true } });
  expect(room([cordoned], { pods: [pod("own", "a", 2)] })).toMatchObject({ at: "room", replicas: 1 });
  expect(room([cordoned])).toEqual({ at: "full", message: "a: cordoned" });
});

test("taints, a lack of memory and other labels are reasons", () => {
  const tainted = node("b", 8, { spec: { taints: [{ key: GPU, effect: "NoSchedule" }] } });
  expect(room([tainted])).toEqual({ at: "full", message: "b: not ready, or tainted" });
  const tolerations = [{ key: GPU, operator: "Exists" }];
  expect(room([tainted], { tolerations })).toMatchObject({ at: "room" });
  expect(room([node("a", 8)], { misfit: () => "too small" })).toEqual({
    at: "full",
    message: "a: too small",
  });
  expect(room([node("a", 1), node("b", 8, { labels: { gpu: "a10" } })])).toEqual({
    at: "unmatched",
    message: "no node has gpu=l40s, nvidia.com/gpu: 2",
  });
});

test("a node matches the labels, or one of the terms", () => {
  const flavors = { limits: {}, parallel: {} };
  const is = (values: readonly string[]) => ({ matchExpressions: [{ key: "gpu", operator: "In", values }] });
  expect(matchesFlavors(node("a", 1), undefined)).toBe(true);
  expect(matchesFlavors(node("a", 1), { ...flavors, nodeSelector: { gpu: "a10" } })).toBe(false);
  expect(matchesFlavors(node("a", 1), { ...flavors, terms: [is(["a10"]), is(["h100", "l40s"])] })).toBe(true);
  expect(matchesFlavors(node("a", 1), { ...flavors, terms: [is(["a10"])] })).toBe(false);
});
