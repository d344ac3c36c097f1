import { expect, test } from "vitest";
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { requestLines, topLines } from "./view.ts";

const GIB = 2 ** 30;
const ready = [{ type: "Ready", status: "True", reason: "Ready", message: "", lastTransitionTime: "" }];
const host = {
  metadata: { name: "mini-1" },
  spec: { memory: {} },
  status: {
    conditions: ready,
    memory: { gpuBudgetBytes: 16 * GIB, claimedBytes: 6 * GIB, pressure: "Normal" },
    models: [{ source: "hf://a/b", tokensPerSecond: 41.26 }],
  },
} as unknown as Host;
const service = (name: string, status: object) =>
  ({
    metadata: { namespace: "team", name },
    spec: { modelRef: "b", replicas: 2 },
    status,
  }) as unknown as InferenceService;
const replica = (name: string, phase: string) =>
  ({
    metadata: { namespace: "team", name },
    spec: {
      template: { hostName: "mini-1", serviceName: "chat", model: { source: "hf://a/b" } },
      memory: { claimBytes: 3 * GIB },
    },
    status: { phase },
  }) as unknown as InferenceReplica;
const input = {
  hosts: [host],
  services: [
    service("chat", {
      phase: "Ready",
      readyReplicas: 2,
      desiredReplicas: 2,
      on: "Hosts",
      performance: { tokensPerSecond: 150 },
    }),
    service("big", {
      phase: "WaitingForCapacity",
      queuePosition: 1,
      waitingFor: "memory: 12.3 GiB",
      on: "Hosts",
    }),
    service("gpu", { phase: "WaitingForGPU", queuePosition: 2, waitingFor: "nvidia.com/gpu: 2", on: "Pods" }),
    service("both", { phase: "Ready", readyReplicas: 2, desiredReplicas: 2, on: "Hosts+Pods" }),
  ],
  replicas: [replica("chat-0", "Ready"), replica("chat-1", "Ready"), replica("chat-2", "Starting")],
  requests: { gateways: 0, answered: 0, queues: [] },
};

test("hosts with their memory, services with the speed of their ready replicas, the queue", () => {
  expect(topLines(input, { title: "title", problem: "" }, { columns: 200, rows: 50 })).toEqual([
    "title",
    "",
    "HOST    STATE  MEMORY CLAIMED                         PRESSURE  REPLICAS",
    "mini-1  Ready  ███████▌░░░░░░░░░░░░  6 GiB of 16 GiB  Normal    3",
    "",
    "SERVICE    PHASE               READY  ON          MODEL  TOKENS/S  NOW  MESSAGE",
    "team/big   WaitingForCapacity  0/2    Hosts       b      -         -",
    "team/both  Ready               2/2    Hosts+Pods  b      -         -",
    "team/chat  Ready               2/2    Hosts       b      82.6      150",
    "team/gpu   WaitingForGPU       0/2    Pods        b      -         -",
    "",
    "QUEUE  ON     SERVICE   WAITS FOR",
    "1      Hosts  team/big  memory: 12.3 GiB",
    "2      Pods   team/gpu  nvidia.com/gpu: 2",
  ]);
});

test("fits into any terminal, and counts what it leaves out", () => {
  const lines = topLines(input, { title: "title", problem: "" }, { columns: 20, rows: 5 });
  expect(lines).toHaveLength(5);
  expect(lines.at(-1)).toBe("… 10 more lines");
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(20);
});

test("hundreds of hosts leave half of the screen to services and queues, and all that these do not need", () => {
  const hosts = Array.from({ length: 300 }, (_, index) => ({
    ...host,
    metadata: { name: `mini-${String(index).padStart(3, "0")}` },
  }));
  const firstColumn = (rows: number) =>
    topLines({ ...input, hosts }, { title: "title", problem: "" }, { columns: 200, rows }).map((line) =>
      line.replace(/ {2,}.*/, ""),
    );
  const services = ["", "SERVICE", "team/big", "team/both", "team/chat", "team/gpu"];
  expect(firstColumn(24)).toHaveLength(24);
  expect(firstColumn(24).slice(13)).toEqual(["… 290 more hosts", ...services, "", "QUEUE", "1", "2"]);
  expect(firstColumn(14).slice(6)).toEqual(["… 297 more hosts", ...services, "… 4 more lines"]);
  expect(firstColumn(400)).toHaveLength(313);
});

test("services with requests, and each key that waits with the position of its next request", () => {
  const queues = [
    {
      ...{ service: "team/chat", waiting: 3, longestWaitSeconds: 34.2, slots: { used: 4, total: 4 } },
      keys: [
        { key: "ada", waiting: 2, position: 1, longestWaitSeconds: 34.2 },
        { key: "bob", waiting: 1, position: 3, longestWaitSeconds: 0.5 },
      ],
    },
    { service: "team/code", waiting: 0, longestWaitSeconds: 0, slots: { used: 1, total: 2 }, keys: [] },
    { service: "team/idle", waiting: 0, longestWaitSeconds: 0, slots: { used: 0, total: 2 }, keys: [] },
  ];
  expect(requestLines({ gateways: 2, answered: 1, problem: "pod g-2: timeout", queues })).toEqual([
    "",
    "cannot read the queues of requests: 1 of 2 gateways answered: pod g-2: timeout",
    "",
    "REQUESTS   SLOTS  WAITING  LONGEST WAIT",
    "team/chat  4/4    3        34s",
    "team/code  1/2    0        -",
    "",
    "WAITING    KEY  REQUESTS  NEXT  LONGEST WAIT",
    "team/chat  ada  2         1     34s",
    "team/chat  bob  1         3     0.5s",
  ]);
  expect(requestLines({ gateways: 1, answered: 1, queues: [] })).toEqual([]);
  expect(requestLines({ gateways: 0, answered: 0, queues: [], problem: "no right" })).toEqual([
    "",
    "cannot read the queues of requests: no right",
  ]);
});
