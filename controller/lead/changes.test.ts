import { expect, test } from "vitest";
import { type Host, hostSchema } from "../../src/api/host.ts";
import { inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import { type Model, modelSchema } from "../../src/api/model.ts";
import { createGroupings } from "../frame/watches/watches.ts";
import { type ChangePorts, createHandlers } from "./changes.ts";

type Stored = NonNullable<NonNullable<Host["status"]>["models"]>[number];

const host = (...models: Stored[]) => hostSchema.parse({ metadata: { name: "mac-1" }, status: { models } });

const model = (name: string, source: string): Model =>
  modelSchema.parse({ metadata: { name, namespace: "apps" }, spec: { source } });

/** Models that are planned again after a host's list of models has changed. */
function plannedAfter(models: readonly Model[], before: Host | undefined, after: Host | undefined): string[] {
  const planned: string[] = [];
  const ignored = { enqueue: () => {}, enqueueAfter: () => {} };
  const watches = createGroupings();
  for (const one of models) watches.modelsOfSource.note(`apps/${one.metadata.name}`, one, undefined);
  const ports = {
    queues: {
      hosts: ignored,
      fleet: ignored,
      placement: ignored,
      services: ignored,
      models: { enqueue: (key: string) => planned.push(key) },
    },
    scheduler: { noteHost: () => {} },
    watches: { ...watches, services: { list: () => [] } },
    flavors: { waiting: () => [] },
  } as unknown as ChangePorts;
  createHandlers(ports).onHost("mac-1", after, before);
  return planned.sort();
}

const MODELS = [
  model("chat", "hf://org/chat"),
  model("twin", "hf://org/chat"),
  model("signed", "https://models.example/a.gguf?sig=1"),
  model("other", "hf://org/other"),
];

test("a copy that a host has fetched enqueues only the Models of its source", () => {
  const before = host({ source: "hf://org/other" });
  const after = host({ source: "hf://org/other" }, { source: "hf://org/chat", sizeBytes: 7 });
  expect(plannedAfter(MODELS, before, after)).toEqual(["apps/chat", "apps/twin"]);
  expect(plannedAfter(MODELS, after, before)).toEqual(["apps/chat", "apps/twin"]);
});

test("a signed source is found by the public form that a Host reports", () => {
  const after = host({ source: "https://models.example/a.gguf" });
  expect(plannedAfter(MODELS, undefined, after)).toEqual(["apps/signed"]);
});

test("a new size or checksum enqueues a Model; a new speed or order does not", () => {
  const chat = { source: "hf://org/chat", sizeBytes: 7 };
  const other = { source: "hf://org/other", sizeBytes: 8 };
  expect(plannedAfter(MODELS, host(chat, other), host({ ...other, tokensPerSecond: 9 }, chat))).toEqual([]);
  expect(plannedAfter(MODELS, host(other), host({ ...other, sizeBytes: 9 }))).toEqual(["apps/other"]);
  expect(plannedAfter(MODELS, host(other), host({ ...other, sha256: "a".repeat(64) }))).toEqual([
    "apps/other",
  ]);
});

test("a deleted Host enqueues the Models of its copies", () => {
  expect(plannedAfter(MODELS, host({ source: "hf://org/other" }), undefined)).toEqual(["apps/other"]);
});

test("a new result, and facts of a Host that its speed depends on, enqueue the services whose speed is not known", () => {
  const planned: string[] = [];
  const ignored = { enqueue: () => {}, enqueueAfter: () => {} };
  const serviceWith = (name: string, status?: string) => ({
    metadata: { name, namespace: "apps" },
    spec: { placement: { mode: "Default" } },
    status: { conditions: status === undefined ? [] : [{ type: "SpeedKnown", status }] },
  });
  const list = () => [serviceWith("in-pods"), serviceWith("slow", "False"), serviceWith("known", "True")];
  const ports = {
    queues: {
      ...{ hosts: ignored, fleet: ignored, placement: ignored },
      ...{ models: ignored, services: { enqueue: (key: string) => planned.push(key) } },
    },
    scheduler: { noteHost: () => {}, pending: () => [] },
    watches: { ...createGroupings(), services: { list } },
    flavors: { waiting: () => [] },
  } as unknown as ChangePorts;
  const { onHost, onBenchmarks } = createHandlers(ports);
  const plannedAfter = (change: () => void) => {
    planned.length = 0;
    change();
    return planned;
  };
  const mac = (status: object, labels = {}, unschedulable = false) =>
    hostSchema.parse({ metadata: { name: "mac-1", labels }, spec: { unschedulable }, status });
  const info = { os: "darwin", chip: "Apple M4", gpuCores: 10 };
  const models = (tokensPerSecond: number) => [{ source: "hf://org/chat", tokensPerSecond }];
  expect(plannedAfter(onBenchmarks)).toEqual(["apps/slow"]);
  const before = mac({ info, models: models(7) });
  for (const after of [
    mac({ info: { ...info, gpuCores: 8 }, models: models(7) }),
    mac({ info, models: models(7) }, { room: "a" }),
    mac({ info, models: models(7) }, {}, true),
    mac({ info }),
    undefined,
  ])
    expect(plannedAfter(() => onHost("mac-1", after, before))).toEqual(["apps/slow"]);
  const faster = mac({ info, models: models(8), memory: { freeBytes: 3 } });
  expect(plannedAfter(() => onHost("mac-1", faster, before))).toEqual([]);
});

test("a DeviceClass enqueues the services whose Models name it in a flavor", () => {
  const queued: string[] = [];
  const groupings = createGroupings();
  const flavored = modelSchema.parse({
    metadata: { name: "chat", namespace: "apps" },
    spec: { source: "hf://org/chat", flavors: [{ name: "l40s", deviceClass: "gpu.example.com" }] },
  });
  for (const name of ["chat", "other"]) {
    const spec = { modelRef: name };
    const service = inferenceServiceSchema.parse({ metadata: { name, namespace: "apps" }, spec });
    groupings.servicesOfModel.note(`apps/${name}`, service, undefined);
  }
  const ports = {
    queues: { services: { enqueue: (key: string) => queued.push(key) } },
    watches: { ...groupings, models: { list: () => [flavored, model("other", "hf://org/other")] } },
  } as unknown as ChangePorts;
  createHandlers(ports).onDeviceClass("another.example.com");
  expect(queued).toEqual([]);
  createHandlers(ports).onDeviceClass("gpu.example.com");
  expect(queued).toEqual(["apps/chat"]);
});
