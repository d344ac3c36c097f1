import { mkdirSync, readFileSync, renameSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { dirname, join } from "node:path";
import { expect, test, vi } from "vitest";
import { PINNED_HELP } from "../../src/engines/llamacpp/pinned.ts";
import type { MemoryReading } from "../../src/macos/host-reader.ts";
import { processPorts } from "../../src/supervise/fixtures/run.ts";
import { createSteppedClock } from "../../test/controller/stepped-clock.ts";
import { keepLines, type LogLine } from "../../test/fixtures/log-lines.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { agentConfigSchema } from "../config/schema.ts";
import type { EngineDriver } from "../engines/driver/engine.ts";
import { createEngineDrivers } from "../engines/registry.ts";
import type { GateRoutes } from "../gate/gate-routes.ts";
import { createInstances } from "../instances/instances.ts";
import type { MemoryAssessment } from "../pressure/pressure-watch.ts";
import type { DiskReading } from "../store/types.ts";
import { createHostObserver, type HostObserverOptions, type MachineReadings } from "./observe-host.ts";

interface Machine {
  readonly memory: MemoryReading;
  readonly disk: DiskReading;
}

function observerOf({ memory, disk }: Machine, overrides: Partial<HostObserverOptions> = {}) {
  return createHostObserver({
    reader: {
      info: async () => ({}),
      memory: async () => memory,
      wiredBytes: async () => 2,
      gpuBudgetBytes: async () => 6,
      footprintBytes: async () => undefined,
    },
    store: { list: async () => [], disk: async () => disk, collect: async () => [] },
    drivers: [],
    clock: createSteppedClock(),
    log: keepLines([]),
    agentVersion: "1",
    memory: {},
    diskReserveBytes: 5,
    address: () => ({ at: "up", address: "192.0.2.1" }),
    claimedBytes: () => 0,
    isWorking: () => true,
    mayCollect: () => true,
    assessment: () => undefined,
    onReadings: () => {},
    ...overrides,
  });
}

const roomy = { totalBytes: 100, freeBytes: 50, storeBytes: 20 };
const calm: MemoryReading = { totalBytes: 8, availableBytes: 1, pressure: "Normal" };

test("metrics show the pressure that status reports: the governor's where it sees pressure", async () => {
  let judgement: MemoryAssessment | undefined;
  const readings: (MachineReadings | "unreadable")[] = [];
  const observer = observerOf(
    { memory: calm, disk: roomy },
    { assessment: () => judgement, onReadings: (found) => readings.push(found) },
  );
  await observer.observe();
  expect(readings).toHaveLength(1);
  expect(readings[0]).toMatchObject({
    memory: { pressure: "Normal", availableBytes: 1 },
    gpuBudgetBytes: 6,
    disk: roomy,
  });
  judgement = { level: "Critical", because: "swap grows" };
  await observer.observe();
  expect(readings[1]).toMatchObject({ memory: { pressure: "Critical" } });
});

test("a GPU whose driver is loaded later is found", async () => {
  const clock = createSteppedClock();
  const known = { machineId: "m", os: "linux", osVersion: "12", chip: "Xeon", hardwareModel: "x" };
  const whole = { ...known, performanceCores: 2, memoryBytes: 8, bootTime: "2026-01-01T00:00:00Z" };
  const gpu = { vendor: "nvidia", name: "NVIDIA L4", count: 1, unified: false } as const;
  const answers = [whole, { ...whole, gpus: [gpu] }, { ...whole, gpus: [{ ...gpu, memoryBytes: 24 }] }];
  let reads = 0;
  const reader = {
    info: async () => answers[Math.min(reads++, 2)] ?? whole,
    memory: async () => calm,
    wiredBytes: async () => undefined,
    gpuBudgetBytes: async () => undefined,
    footprintBytes: async () => undefined,
  };
  const observer = observerOf({ memory: calm, disk: roomy }, { clock, reader });
  for (const answer of [...answers, answers[2]]) {
    expect((await observer.observe()).info.gpus).toEqual(
      answer && "gpus" in answer ? answer.gpus : undefined,
    );
    clock.advance(600_000);
  }
  expect(reads).toBe(3);
});

test("models of other programs are read rarely, and status does not wait for them", async () => {
  await using folder = await temporaryFolder();
  writeFileSync(join(folder.path, "tiny.gguf"), "12345");
  // A server that never answers: it is given up after 2 s.
  const asked: Socket[] = [];
  const server = createServer((socket) => asked.push(socket.on("error", () => undefined)));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const ollama = agentConfigSchema.shape.ollama.parse({ address: `127.0.0.1:${port}` });
  const clock = createSteppedClock();
  const otherPrograms = { modelRoots: [folder.path], ollama, reportInstalled: true };
  const observer = observerOf({ memory: calm, disk: roomy }, { clock, otherPrograms });
  try {
    expect((await observer.observe()).installed).toBeUndefined();
    const found = { source: "tiny.gguf", runtime: "llamacpp", sizeBytes: 5 };
    const observed = async () => (await observer.observe()).installed;
    await vi.waitFor(async () => expect(await observed()).toContainEqual(found), 60_000);
    clock.advance(299_000);
    expect(await observed()).toContainEqual(found);
    expect(asked).toHaveLength(1);
    clock.advance(1_000);
    expect(await observed()).toContainEqual(found);
    await vi.waitFor(() => expect(asked).toHaveLength(2), 60_000);
  } finally {
    for (const socket of asked) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  }
});

test("unused models are removed before disk space is reported, but not before it is known which are in use", async () => {
  const clock = createSteppedClock();
  let isKnown = false;
  let freeBytes = 3;
  const store = {
    list: async () => [],
    disk: async () => ({ ...roomy, freeBytes }),
    collect: async () => {
      freeBytes = 6;
      return [];
    },
  };
  const observer = observerOf({ memory: calm, disk: roomy }, { clock, store, mayCollect: () => isKnown });
  expect((await observer.observe()).disk?.freeBytes).toBe(3);
  isKnown = true;
  clock.advance(2_000);
  expect((await observer.observe()).disk?.freeBytes).toBe(6);
});

test("a disk that is almost full is read again within 5 s, any other rarely", async () => {
  const clock = createSteppedClock();
  let freeBytes = 50;
  const store = {
    list: async () => [],
    collect: async () => [],
    disk: async () => ({ ...roomy, freeBytes }),
  };
  const observer = observerOf({ memory: calm, disk: roomy }, { clock, store });
  const seen = async () => (await observer.observe()).disk?.freeBytes;
  expect(await seen()).toBe(50);
  freeBytes = 3;
  clock.advance(5_000);
  expect(await seen()).toBe(50);
  clock.advance(25_000);
  expect(await seen()).toBe(3);
  freeBytes = 40;
  clock.advance(5_000);
  expect(await seen()).toBe(40);
});

test("a missing engine is detected again within 5 s, even if another engine brings its own programs", async () => {
  const clock = createSteppedClock();
  let isInstalled = false;
  const driver = (runtime: string, found: () => object | undefined) =>
    ({ runtime, detect: async () => found(), devices: async () => "unknown" }) as unknown as EngineDriver;
  const programs = [{ name: "mlx_lm.server", version: "1", path: "/bin/mlx_lm.server" }];
  const drivers = [
    driver("generic", () => ({ version: "1", path: "/bin", programs })),
    driver("llamacpp", () => (isInstalled ? { version: "2", path: "/bin/llama-server" } : undefined)),
  ];
  const observer = observerOf({ memory: calm, disk: roomy }, { clock, drivers });
  const names = async () => (await observer.observe()).runtimes.found.map(({ name }) => name);
  expect(await names()).toEqual(["generic", "mlx_lm.server"]);
  isInstalled = true;
  clock.advance(5_000);
  expect(await names()).toEqual(["generic", "mlx_lm.server", "llamacpp"]);
});

test("disk space is reported even when removing unused models fails", async () => {
  const lines: LogLine[] = [];
  const store = {
    list: async () => [],
    disk: async () => roomy,
    collect: () => Promise.reject(new Error("EIO")),
  };
  const observer = observerOf({ memory: calm, disk: roomy }, { store, log: keepLines(lines) });
  expect((await observer.observe()).disk).toEqual(roomy);
  expect(lines.map(({ message }) => message)).toContain("cannot remove unused models");
});

test("machine info that a tool failed to report is read again, and known values are kept", async () => {
  const clock = createSteppedClock();
  const whole = {
    machineId: "m",
    os: "darwin",
    osVersion: "26.1",
    chip: "Apple M4",
    hardwareModel: "Mac16,5",
    performanceCores: 10,
    gpuCores: 10,
    memoryBytes: 8,
    bootTime: "2026-01-01T00:00:00Z",
  };
  const answers: object[] = [{ osVersion: "26.1", hardwareModel: "Mac16,5" }, whole];
  let asked = 0;
  const observer = observerOf(
    { memory: calm, disk: roomy },
    {
      clock,
      reader: {
        info: async () => {
          asked += 1;
          return answers.shift() ?? {};
        },
        memory: async () => calm,
        wiredBytes: async () => 2,
        gpuBudgetBytes: async () => 6,
        footprintBytes: async () => undefined,
      },
    },
  );
  expect((await observer.observe()).info.machineId).toBeUndefined();
  clock.advance(5_000);
  await observer.observe();
  expect(asked).toBe(1);
  clock.advance(600_000);
  expect((await observer.observe()).info).toMatchObject(whole);
  expect(await observer.machineId()).toBe("m");
  clock.advance(6_000_000);
  await observer.observe();
  expect(asked).toBe(2);
});

test("a host with several GPUs has the memory of all, and a GPU that two backends show counts once", async () => {
  const GIB = 2 ** 30;
  const device = (name: string, gib: number) => ({
    name,
    description: "a GPU",
    totalBytes: gib * GIB,
    freeBytes: gib * GIB,
  });
  const budgetOf = async (...devices: readonly ReturnType<typeof device>[]) => {
    const driver = { runtime: "llamacpp", detect: async () => undefined, devices: async () => devices };
    const drivers = [driver as unknown as EngineDriver];
    return (await observerOf({ memory: calm, disk: roomy }, { drivers }).observe()).gpuBudgetBytes;
  };
  expect(await budgetOf(device("CUDA0", 24), device("CUDA1", 24))).toBe(48 * GIB);
  expect(await budgetOf(device("CUDA0", 24), device("CUDA1", 24), device("Vulkan0", 24))).toBe(48 * GIB);
  expect(await budgetOf(device("MTL0", 48))).toBe(48 * GIB);
  expect(await budgetOf()).toBe(6);
});

/** What a host reports while programs are installed and removed on its PATH and in its generic.roots. */
function farmHost(folder: string, roots: readonly string[] = []) {
  const clock = createSteppedClock();
  const instances = createInstances({
    ...processPorts(),
    stateDir: join(folder, "state"),
    footprintBytes: async () => undefined,
  });
  const drivers = createEngineDrivers({
    env: { PATH: `${join(folder, "bin")}:/usr/bin:/bin` },
    config: { llamaServer: [], generic: { roots: [...roots], env: [] } },
    instances,
    memoryBudget: () => undefined,
    gate: { routes: {} as GateRoutes, clock },
  });
  const observer = observerOf({ memory: calm, disk: roomy }, { clock, drivers: [...drivers.values()] });
  return {
    /** As of a minute later; what is installed meanwhile has to be seen by then. */
    runtimesLater: async () => {
      clock.advance(60_000);
      const { found, problems } = (await observer.observe()).runtimes;
      expect(problems).toEqual([]);
      return found.map(({ name, version }) => `${name} ${version}`);
    },
  };
}

/** As a package manager does it: the new file replaces the old one, with its own modification time. */
function install(path: string, script: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(`${path}.new`, `#!/bin/sh\necho run >>'${path}.runs'\n${script}\n`, { mode: 0o755 });
  utimesSync(`${path}.new`, 1_700_000_000, 1_700_000_000);
  renameSync(`${path}.new`, path);
}

test.each<[string, string, (version: number) => string]>([
  [
    "llamacpp",
    "llama-server",
    (version) =>
      `[ "$1" = --version ] && echo 'version: 0.0.1 (build ${version}, commit x)' || cat <<'HELP'\n${PINNED_HELP}\nHELP`,
  ],
  ["ollama", "ollama", (version) => `echo 'Warning: client version is ${version}'`],
])(
  "an installed and an upgraded %s is seen without a restart, and one that is the same is not run again",
  async (name, file, script) => {
    await using folder = await temporaryFolder();
    const { runtimesLater } = farmHost(folder.path);
    const path = join(folder.path, "bin", file);
    expect(await runtimesLater()).toEqual([]);
    install(path, script(9000));
    expect(await runtimesLater()).toEqual([expect.stringMatching(`^${name} .*9000$`)]);
    const runs = readFileSync(`${path}.runs`, "utf8");
    await runtimesLater();
    expect(readFileSync(`${path}.runs`, "utf8")).toBe(runs);
    // Of the same size, and with the same modification time.
    install(path, script(9001));
    expect(await runtimesLater()).toEqual([expect.stringMatching(`^${name} .*9001$`)]);
    rmSync(path);
    expect(await runtimesLater()).toEqual([]);
  },
);

test("a program that generic starts by its name is reported with its version once it is in the roots", async () => {
  await using folder = await temporaryFolder();
  const { runtimesLater } = farmHost(folder.path, [join(folder.path, "venv/bin")]);
  expect(await runtimesLater()).toEqual(["generic 1"]);
  const about = (version: string) =>
    join(folder.path, `venv/lib/python3.13/site-packages/mlx_lm-${version}.dist-info`);
  mkdirSync(about("0.28.0"), { recursive: true });
  install(join(folder.path, "venv/bin/mlx_lm.server"), "exit 2");
  expect(await runtimesLater()).toEqual(["generic 1", "mlx_lm.server 0.28.0"]);
  renameSync(about("0.28.0"), about("0.28.1"));
  expect(await runtimesLater()).toEqual(["generic 1", "mlx_lm.server 0.28.1"]);
});

test("an observation that hangs or fails ends, and names the reading", async () => {
  const clock = createSteppedClock();
  const never = new Promise<never>(() => {});
  const store = { list: async () => [], disk: () => never, collect: async () => [] };
  const hung = observerOf({ memory: calm, disk: roomy }, { clock, store });
  const asked = hung.observe();
  const ended = expect(asked).rejects.toThrow(
    "cannot read the disk of the model store: no answer within 30 s",
  );
  clock.advance(30_000);
  await ended;
  const claimedBytes = () => Promise.reject(new Error("EIO"));
  const failing = observerOf({ memory: calm, disk: roomy }, { clock, claimedBytes });
  await expect(failing.observe()).rejects.toThrow("cannot read the shared servers: EIO");
});

test("a GPU budget that cannot be read is read again with the next beat, and the last one stays until then", async () => {
  const clock = createSteppedClock();
  const GPU = { name: "CUDA0", description: "a GPU", totalBytes: 24, freeBytes: 24 };
  let devices: readonly (typeof GPU)[] | "unknown" = "unknown";
  const driver = { runtime: "llamacpp", detect: async () => undefined, devices: async () => devices };
  const drivers = [driver as unknown as EngineDriver];
  const observer = observerOf({ memory: calm, disk: roomy }, { clock, drivers });
  const budgetLater = async (ms: number) => {
    clock.advance(ms);
    return (await observer.observe()).gpuBudgetBytes;
  };
  expect(await budgetLater(0)).toBe(6);
  devices = [GPU];
  expect(await budgetLater(5_000)).toBe(24);
  devices = "unknown";
  expect(await budgetLater(600_000)).toBe(24);
  devices = [];
  expect(await budgetLater(5_000)).toBe(6);
});
