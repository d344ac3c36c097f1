import { expect, test } from "vitest";
import type { BenchmarkResult } from "../../src/api/benchmark.ts";
import { LABEL_BENCHMARK } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import { hostSchema } from "../../src/api/host.ts";
import { inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import { type Model, modelSchema } from "../../src/api/model.ts";
import { benchmarkKey } from "../../src/capacity/benchmark/key.ts";
import { subjectsOnHosts } from "../../src/capacity/benchmark/subject.ts";
import { NO_BENCHMARKS, readBenchmarks } from "../../src/capacity/benchmark/table.ts";
import type { Node } from "../../src/kube/workload-objects.ts";
import { testGoldens } from "../../test/golden/golden.ts";
import { podsConfigSchema, podsSettingsOf } from "../service/pods/config.ts";
import { type benchmarkJob, benchmarkLabel, type JobState } from "./job.ts";
import { type BenchmarkMemory, type BenchmarksPlan, NO_MEMORY, planBenchmarks } from "./plan.ts";
import { reportsOf } from "./report.ts";
import { type Target, targetsOf } from "./targets.ts";

const NOW = "2026-11-26T12:00:00Z";
const GIB = 2 ** 30;
const HOUR_MS = 3_600_000;
const settings = podsSettingsOf({
  ...podsConfigSchema.parse({}),
  ...{ image: "registry.example/mb:1" },
} as never);

interface ShortInput {
  /** `<name>`, oldest first; sources are remote unless they start with a slash. */
  readonly models: readonly {
    readonly name: string;
    readonly source?: string;
    readonly sha?: string;
    readonly accelerator?: string;
    readonly off?: boolean;
    readonly gib?: number;
    /** More of its spec. */
    readonly spec?: object;
  }[];
  readonly services?: readonly ({ readonly modelRef: string } & object)[];
  readonly hosts?: readonly {
    readonly name: string;
    readonly class: string;
    readonly build?: string;
    readonly busy?: boolean;
    readonly ready?: boolean;
    readonly stored?: readonly string[];
    /** `<model> [build]` of the order, and what its agent says. */
    readonly order?: string;
    readonly state?: object;
    /** Tokens per second of its measurement. */
    readonly measured?: number;
  }[];
  readonly nodes?: readonly {
    readonly name: string;
    readonly class: string;
    readonly gpus?: number;
    readonly ready?: boolean;
  }[];
  /** Jobs of the first Model. */
  readonly jobs?: readonly { readonly node: string; readonly class: string; readonly state: JobState }[];
  readonly table?: readonly {
    readonly model: string;
    readonly class: string;
    readonly build?: string;
    readonly at?: string;
    readonly edited?: string;
  }[];
  readonly isOn?: boolean;
}

const measurement = (build: string, median: number, measuredAt = "2026-11-26T11:59:00Z") => ({
  build,
  measuredAt,
  tool: "llama-bench" as const,
  generation: { median, spread: 0.01, samples: [median] },
});

function modelsOf({ models }: ShortInput): Model[] {
  return models.map((short, index) => {
    const {
      name,
      source = `hf://org/${name}/${name}.gguf`,
      sha = name,
      accelerator,
      off,
      gib = 4,
      spec,
    } = short;
    return modelSchema.parse({
      metadata: { name, namespace: "apps", creationTimestamp: `2026-01-0${index + 1}T00:00:00Z` },
      spec: {
        source,
        ...(accelerator === undefined ? {} : { hardware: { accelerator } }),
        ...(off === true ? { benchmark: { enabled: false } } : {}),
        ...spec,
      },
      status: {
        phase: "Ready",
        sha256: sha,
        cacheKey: name,
        sizeBytes: gib * GIB,
        cache: {
          phase: "Ready",
          reason: "ModelTransferSucceeded",
          message: "",
          claimName: "cache",
          folder: name,
          file: "m.gguf",
        },
      },
    });
  });
}

function keyFor(models: readonly Model[], name: string, deviceClass: string): string {
  const model = models.find(({ metadata }) => metadata.name === name);
  const [subject] =
    model === undefined
      ? []
      : subjectsOnHosts({ ...model, spec: { ...model.spec, hardware: undefined } }, []);
  return benchmarkKey(subject ?? { content: name, runtime: "llamacpp", settings: {} }, deviceClass);
}

function hostOf(short: NonNullable<ShortInput["hosts"]>[number], models: readonly Model[]): Host {
  const { name, build = "b1", ready = true, stored = [], order, state, measured } = short;
  const [model = "", ordered = build] = order?.split(" ") ?? [];
  const key = keyFor(models, model, short.class);
  const condition = (type: string) => ({
    type,
    status: ready ? "True" : "False",
    reason: type,
    message: "",
    lastTransitionTime: NOW,
  });
  const result = measured === undefined ? {} : { phase: "Done", result: measurement(ordered, measured) };
  return hostSchema.parse({
    metadata: { name },
    status: {
      conditions: [condition("Ready"), condition("Reachable")],
      info: { agentVersion: "1", os: "darwin" },
      runtimes: [{ name: "llamacpp", version: build }],
      memory: { totalBytes: 32 * GIB, gpuBudgetBytes: 24 * GIB },
      models: stored.map((source) => ({ source })),
      ...(order === undefined
        ? {}
        : {
            benchmark: {
              order: {
                key,
                namespace: "apps",
                name: model,
                model: {
                  source: `hf://org/${model}`,
                  files: [],
                  format: "gguf",
                  refreshPolicy: "IfNotPresent",
                },
                runtime: "llamacpp",
                build: ordered,
                deviceClass: short.class,
                settings: {},
                plan: { warmups: 2, runs: 5, tokens: 128 },
              },
              ...(state === undefined && measured === undefined
                ? {}
                : { state: { key, build: ordered, ...state, ...result } }),
            },
          }),
    },
  });
}

function nodeOf({ name, gpus = 1, ready = true }: NonNullable<ShortInput["nodes"]>[number]): Node {
  return {
    metadata: { name, labels: { "kubernetes.io/hostname": name } },
    status: {
      allocatable: { "nvidia.com/gpu": String(gpus) },
      conditions: [{ type: "Ready", status: ready ? "True" : "False" }],
    },
  };
}

function plan(input: ShortInput, memory: BenchmarkMemory = NO_MEMORY, atMs = 0) {
  const models = modelsOf(input);
  const services = (input.services ?? []).map((spec, index) =>
    inferenceServiceSchema.parse({ metadata: { name: `s${index}`, namespace: "apps" }, spec }),
  );
  const hosts = (input.hosts ?? []).map((short) => ({
    host: hostOf(short, models),
    deviceClass: short.class,
    isBusy: short.busy ?? false,
  }));
  const nodes = (input.nodes ?? []).map((short) => ({ node: nodeOf(short), deviceClass: short.class }));
  const servicesOf = ({ metadata }: Model) => services.filter(({ spec }) => spec.modelRef === metadata.name);
  const targets = targetsOf({ models, servicesOf, hosts, nodes, settings });
  const entries = (input.table ?? []).map(
    ({ model, class: deviceClass, build = "b1", at = "2026-11-20T00:00:00Z", edited }) => {
      const result: BenchmarkResult = {
        ...measurement(build, 40, at),
        model: `hf://org/${model}`,
        deviceClass,
        machine: "mac-0",
        runtime: "llamacpp",
        settings: {},
      };
      const key = targets.find(
        (one) => one.model.metadata.name === model && one.deviceClass === deviceClass,
      )?.key;
      return [key ?? keyFor(models, model, deviceClass), edited ?? JSON.stringify(result)] as const;
    },
  );
  const jobs = (input.jobs ?? []).map(({ node, class: deviceClass, state }) => {
    const target = targets.find((one) => one.deviceClass === deviceClass);
    const label = benchmarkLabel(target?.key ?? "gone");
    const job = {
      metadata: { name: `job-${node}`, labels: { [LABEL_BENCHMARK]: label } },
    } as unknown as ReturnType<typeof benchmarkJob>;
    return { job, label, node, state };
  });
  const world = {
    targets,
    hosts: hosts.map(({ host }) => host),
    jobs,
    table: readBenchmarks({ data: Object.fromEntries(entries) }),
    isOn: input.isOn ?? true,
    maxAgeMs: 720 * HOUR_MS,
    settings,
  };
  const planned = planBenchmarks(world, memory, { wallMs: Date.parse(NOW) + atMs, monotonicMs: atMs });
  return { planned, targets, models, isOn: world.isOn };
}

function shown({ planned, targets, models, isOn }: ReturnType<typeof plan>) {
  const nameOf = (key: string) => {
    const target = targets.find((one) => one.key === key);
    return target === undefined ? `unknown ${key.slice(17)}` : textOf(target);
  };
  const reports = reportsOf(models, targets, planned, isOn);
  return {
    orders: Object.fromEntries(
      [...planned.orders].map(([host, { key, build }]) => [host, `${nameOf(key)} ${build}`]),
    ),
    create: planned.createJobs.map(
      ({ job: { metadata, spec } }) =>
        `${nameOfJob(targets, metadata.labels)} on ${Object.values(spec.template.spec.nodeSelector ?? {})}`,
    ),
    delete: planned.deleteJobs.map(({ metadata }) => metadata.name),
    store: Object.fromEntries(
      [...planned.store].map(([key, { generation, machine, measuredAt }]) => [
        nameOf(key),
        `${generation.median} by ${machine} at ${measuredAt}`,
      ]),
    ),
    remove: planned.remove.map(nameOf),
    models: Object.fromEntries(
      [...reports].map(([model, { benchmarks = [], condition }]) => [
        model,
        {
          benchmarks: benchmarks.map((one) => `${one.deviceClass} ${one.tokensPerSecond} ${one.build}`),
          condition: condition && `${condition.status} ${condition.reason}`,
          message: condition?.message.split(/; |: |, a /),
        },
      ]),
    ),
  };
}

const textOf = ({ model, deviceClass }: Target) => `${model.metadata.name} ${deviceClass}`;

function nameOfJob(targets: readonly Target[], labels: Readonly<Record<string, string>> = {}) {
  const target = targets.find(({ key }) => benchmarkLabel(key) === labels[LABEL_BENCHMARK]);
  return target && textOf(target);
}

testGoldens(new URL("golden-plan/", import.meta.url).pathname, (input: ShortInput) => shown(plan(input)));

const chat = { models: [{ name: "chat" }] };
const failed = { phase: "Failed", reason: "BenchmarkEngineFailed", message: "no llama-bench; install it" };
const orderedOn = ({ planned }: { readonly planned: BenchmarksPlan }) => [...planned.orders.keys()];

test("a machine does not repeat a failed order for a day, unless its build changes or it gets the weights", () => {
  const host = { name: "mac-1", class: "m4" };
  const after = plan({ ...chat, hosts: [{ ...host, order: "chat", state: failed }] });
  expect(orderedOn(after)).toEqual([]);
  expect(after.planned.failed).toMatchObject([{ code: "BenchmarkEngineFailed" }]);
  const { memory } = after.planned;
  expect(orderedOn(plan({ ...chat, hosts: [host] }, memory, 23 * HOUR_MS))).toEqual([]);
  expect(orderedOn(plan({ ...chat, hosts: [{ ...host, build: "b2" }] }, memory, HOUR_MS))).toEqual(["mac-1"]);
  expect(orderedOn(plan({ ...chat, hosts: [host] }, memory, 24 * HOUR_MS))).toEqual(["mac-1"]);
  const stored = ["hf://org/chat/chat.gguf"];
  expect(orderedOn(plan({ ...chat, hosts: [{ ...host, stored }] }, memory, HOUR_MS))).toEqual(["mac-1"]);
});

test("a failure that the agent still reports is reported once", () => {
  const input = { ...chat, hosts: [{ name: "mac-1", class: "m4", order: "chat", state: failed }] };
  const first = plan(input);
  const second = plan(input, first.planned.memory, 1_000);
  expect(second.planned.failed).toEqual([]);
  expect(orderedOn(second)).toEqual([]);
});

test("an order moves from a busy host to an idle one of the class after 15 minutes", () => {
  const waiting = { phase: "Waiting", reason: "HostBusy", message: "replica apps/a is in phase Ready" };
  const input = {
    ...chat,
    hosts: [
      { name: "mac-1", class: "m4", busy: true, order: "chat", state: waiting },
      { name: "mac-2", class: "m4" },
    ],
  };
  const first = plan(input);
  expect(orderedOn(first)).toEqual(["mac-1"]);
  expect(first.planned.recheckAfterMs).toBe(15 * 60_000);
  const { memory } = first.planned;
  expect(orderedOn(plan(input, memory, 14 * 60_000))).toEqual(["mac-1"]);
  expect(orderedOn(plan(input, memory, 15 * 60_000))).toEqual(["mac-2"]);
});

test("an agent that does not answer an order fails it", () => {
  const input = { ...chat, hosts: [{ name: "mac-1", class: "m4", order: "chat" }] };
  const { memory } = plan(input).planned;
  const late = plan(input, memory, 15 * 60_000);
  expect(late.planned.failed).toMatchObject([{ code: "BenchmarkTimedOut" }]);
  expect(orderedOn(late)).toEqual([]);
});

test("a plan whose orders were carried out is stable", () => {
  const input = {
    ...chat,
    hosts: [
      { name: "mac-1", class: "m4" },
      { name: "mac-2", class: "m4" },
    ],
  };
  const { planned } = plan(input);
  const again = plan(
    {
      ...chat,
      hosts: [
        { name: "mac-1", class: "m4", order: "chat" },
        { name: "mac-2", class: "m4" },
      ],
    },
    planned.memory,
    5,
  );
  expect(orderedOn(again)).toEqual(["mac-1"]);
});

test("a Model that cannot be read is skipped, and the others are measured", () => {
  const input = {
    models: [{ name: "odd", source: "nonsense://x", spec: { format: "gguf" } }, { name: "chat" }],
    hosts: [{ name: "mac-1", class: "m4" }],
  };
  expect(orderedOn(plan(input))).toEqual(["mac-1"]);
});

test("any error of building a Job fails its target only", () => {
  const { targets } = plan({
    models: [
      { name: "chat", accelerator: "cuda" },
      { name: "other", accelerator: "cuda" },
    ],
    nodes: [{ name: "gpu-1", class: "nvidia-l4" }],
  });
  const [first, ...rest] = targets;
  const service = { spec: { gpuLayers: "many" } };
  const candidates = () => first?.candidates().map((one) => ({ ...one, service })) ?? [];
  const broken = { ...first, candidates } as unknown as Target;
  const world = { hosts: [], jobs: [], table: NO_BENCHMARKS, isOn: true, maxAgeMs: HOUR_MS, settings };
  const planned = planBenchmarks({ ...world, targets: [broken, ...rest] }, NO_MEMORY, {
    wallMs: 0,
    monotonicMs: 0,
  });
  expect([...planned.states.values()]).toMatchObject([
    { at: "failed", code: "BenchmarkFailed", message: expect.stringContaining("gpuLayers") },
    { at: "running" },
  ]);
});

test("no measurement starts whose result would not fit in the ConfigMap", () => {
  const models = Array.from({ length: 230 }, (_, index) => ({ name: `m${index}` }));
  const { planned } = plan({ models, hosts: [{ name: "mac-1", class: "m4" }] });
  const states = [...planned.states.values()];
  const full = states.filter((state) => state.at === "pending" && state.why.endsWith("is full"));
  expect(full).toHaveLength(5);
  expect(planned.orders.size).toBe(1);
});
