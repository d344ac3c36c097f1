/** Pods whose nodes do not report: by the Nodes and the pods as kube-controller-manager marks them. */
import { expect, test } from "vitest";
import type { Node, Pod } from "../../src/kube/workload-objects.ts";
import { isNodeReady, podNodeProblem } from "./node-problems.ts";

type Status = "True" | "False" | "Unknown";
const nodeWith = (status: Status): Node => {
  const lastTransitionTime = "2026-01-01T00:00:00Z";
  const said = { reason: "NodeStatusUnknown", message: "Kubelet stopped posting node status." };
  return {
    metadata: { name: "node-1" },
    status: { conditions: [{ type: "Ready", status, lastTransitionTime, ...said }] },
  };
};
const podWith = (ready: Status, more: Partial<Pod["metadata"]> = {}): Pod => ({
  metadata: { name: "chat-1", ...more },
  spec: { containers: [], nodeName: "node-1" },
  status: { phase: "Running", conditions: [{ type: "Ready", status: ready }] },
});

test("a pod that is not ready on a node that does not report names the node, and since when", () => {
  const away = nodeWith("Unknown");
  expect(podNodeProblem([podWith("False"), podWith("False")], () => away)).toEqual({
    code: "NodeNotReady",
    message:
      "chat-1 is on node node-1, which is not ready since 2026-01-01T00:00:00Z (NodeStatusUnknown: Kubelet stopped posting node status.); also on such nodes: 1 more",
  });
  expect(podNodeProblem([podWith("False")], () => undefined)?.message).toBe(
    "chat-1 is on node node-1, which no longer exists",
  );
  expect([away, undefined, nodeWith("True")].map((node) => isNodeReady(node))).toEqual([false, false, true]);
});

test("ready or terminating pods, nodes that report, and pods without a node are no problem", () => {
  const away = () => nodeWith("Unknown");
  expect(podNodeProblem([podWith("True")], away)).toBeUndefined();
  expect(podNodeProblem([podWith("False", { deletionTimestamp: "2026" })], away)).toBeUndefined();
  expect(podNodeProblem([podWith("False")], () => nodeWith("True"))).toBeUndefined();
  expect(podNodeProblem([podWith("False")], () => ({ metadata: { name: "node-1" } }))).toBeUndefined();
  expect(podNodeProblem([{ ...podWith("False"), spec: { containers: [] } }], away)).toBeUndefined();
});
