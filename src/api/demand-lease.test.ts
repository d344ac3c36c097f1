import { expect, test } from "vitest";
import { demandRenewal, readDemandLease, renderDemandLease } from "./demand-lease.ts";

const demand = { gateway: "gateway-1", requestAtMs: Date.UTC(2026, 0, 2, 3, 4, 5, 67) };

test("a demand Lease names its service, belongs to it, and carries the time of the newest request", () => {
  const lease = renderDemandLease({ metadata: { namespace: "chat", name: "qwen", uid: "u1" } }, demand);
  expect(lease).toEqual({
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: {
      name: "qwen-demand",
      namespace: "chat",
      labels: {
        "app.kubernetes.io/managed-by": "metalbridge",
        "metalbridge.dev/demand": "true",
        "metalbridge.dev/service": "qwen",
      },
      ownerReferences: [
        { apiVersion: "metalbridge.dev/v1alpha1", kind: "InferenceService", name: "qwen", uid: "u1" },
      ],
    },
    spec: { holderIdentity: "gateway-1", renewTime: "2026-01-02T03:04:05.067000Z" },
  });
  expect(readDemandLease(lease)).toEqual({ service: "chat/qwen", mark: "2026-01-02T03:04:05.067000Z" });
});

test("a renewal sets holder and time only", () => {
  expect(demandRenewal(demand)).toEqual([
    { op: "add", path: "/spec/holderIdentity", value: "gateway-1" },
    { op: "add", path: "/spec/renewTime", value: "2026-01-02T03:04:05.067000Z" },
  ]);
});

test("other Leases are no demand", () => {
  expect(readDemandLease({ metadata: { namespace: "chat", name: "qwen-demand" } })).toBeUndefined();
  const labels = { "metalbridge.dev/demand": "true" };
  expect(readDemandLease({ metadata: { namespace: "chat", name: "qwen", labels } })).toBeUndefined();
  expect(readDemandLease({ metadata: { namespace: "chat", name: "qwen-demand", labels } })).toEqual({
    service: "chat/qwen",
    mark: undefined,
  });
});
