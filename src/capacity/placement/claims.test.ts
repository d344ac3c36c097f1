import { expect, test } from "vitest";
import type { InferenceReplica } from "../../api/inference-replica.ts";
import { claimOfReplica } from "./claims.ts";

type Status = Partial<NonNullable<InferenceReplica["status"]>>;

test.each<[string, object, Status, number | undefined]>([
  ["reports its requests", {}, { phase: "Ready", performance: { requestsInFlight: 3 } }, 3],
  ["is idle", {}, { phase: "Ready" }, 0],
  ["starts", {}, { phase: "Starting" }, undefined],
  ["reports a speed only", {}, { phase: "Ready", performance: { tokensPerSecond: 3 } }, undefined],
  ["is idle behind the gate of a shared server", { runtime: "ollama" }, { phase: "Ready" }, 0],
  ["is an idle program behind a gate", { runtime: "generic", gate: "Always" }, { phase: "Ready" }, 0],
  ["is a program that reports nothing", { runtime: "generic" }, { phase: "Ready" }, undefined],
])("the requests in flight of a replica that %s", (_, template, status, requests) => {
  const replica = {
    metadata: { namespace: "a", name: "chat-0" },
    spec: {
      template: { runtime: "llamacpp", hostName: "m", serviceName: "chat", engine: {}, ...template },
      memory: { claimBytes: 1 },
    },
    status,
  } as InferenceReplica;
  const { load } = claimOfReplica(replica, undefined, { wallMs: 0, monotonicMs: 0 });
  expect(load).toEqual(requests === undefined ? undefined : { requests, slots: 1 });
});
