/** Measures the gate's overhead, alternating direct and gated requests in one run, and whether restarts and upgrades lose a request. */
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Gate, openGate } from "../../../agent/gate/gate.ts";
import type { GateRoute } from "../../../agent/gate/routes.ts";
import { createInstances } from "../../../agent/instances/instances.ts";
import { silentLog } from "../../../local/terminal-log.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";
import { freePort } from "../../../test/bed/ports.ts";
import { bundleInto } from "../../bundle/bundle.ts";
import { measured, type ScenarioResult, summaryOf } from "../beds/measurement.ts";
import { startPacedDaemon } from "../beds/paced-daemon.ts";

const BLOCKS = 10;
const REQUESTS = 300;
const STREAMS = 64;
const ROUNDS = 5;
const PACED = { stream: true, tokens: 100, everyMs: 20 };
const FLOOD = { stream: true, tokens: 400, everyMs: 0 };
const RESIDENT = { max: 60 };
const CLIENTS = 16;
const ALL_REQUESTS = 10_000;
const RESTARTS = 20;
const UPGRADE_EVERY = 6;
const KEY = "0123456789abcdef";
const PROMPT = "Tell me about the sea. ".repeat(80);

export async function measureGate(): Promise<readonly ScenarioResult[]> {
  await using bed = await openGateBed();
  const latency = await measureLatency(bed, "gate");
  const paced = await measureStreams(bed, PACED);
  const memory = await measureMemory(bed, `gate after ${STREAMS} streams`);
  const flood = await measureStreams(bed, FLOOD);
  const flooded = await measureMemory(bed, `gate after ${STREAMS} unthrottled streams`);
  const beside = await measureNoisyNeighbor(bed);
  const losses = await measureLosses(bed);
  await bed.passAll();
  const allLatency = await measureLatency(bed, "gate that passes all, with a key");
  const allPaced = await measureStreams(bed, PACED);
  const name = `gate, ${STREAMS} streams`;
  return [
    ...latency,
    measured(`${name} of ${1_000 / PACED.everyMs} tokens/s: direct / gated throughput`, "ratio", paced, {
      p50: 1 / 0.95,
    }),
    measured(`${name} unthrottled: direct / gated throughput`, "ratio", flood),
    ...memory.map((one) => (one.name.endsWith("resident") ? { ...one, limits: RESIDENT } : one)),
    ...flooded,
    ...beside,
    ...losses,
    ...allLatency,
    measured(`${name} with a key, body not read: direct / gated throughput`, "ratio", allPaced, {
      p50: 1 / 0.95,
    }),
  ];
}

interface GateBed extends AsyncDisposable {
  readonly direct: string;
  readonly gated: string;
  /** Another service behind the same gate. */
  readonly other: string;
  readonly gate: () => Gate;
  /** Restarts the agent; with `isUpgrade`, as another release. */
  readonly restartAgent: (isUpgrade: boolean) => Promise<void>;
  /** Configures the gate as for an engine with its own process and `auth`: bodies are not read, and a key is required. */
  readonly passAll: () => Promise<void>;
}

/** Runs the gate from its own bundle, as in a release. */
async function openGateBed(): Promise<GateBed> {
  const dir = await mkdtemp(path.join(tmpdir(), "metalbridge-gate-"));
  await bundleInto(path.join(dir, "dist"));
  const daemon = await startPacedDaemon();
  const { port } = daemon;
  const listen = { address: "127.0.0.1", port: await freePort() };
  const target = { host: "127.0.0.1", port };
  const limits = { idleMs: 2_000 };
  const route: GateRoute = {
    id: "bench",
    service: "bench",
    namespace: "bench",
    model: "m",
    protocol: "openai",
    state: "passing",
    listen,
    target,
    limits,
  };
  const otherRoute: GateRoute = {
    ...route,
    id: "other",
    service: "other",
    listen: { address: "127.0.0.1", port: await freePort() },
  };
  let release = 1;
  const open = (routes?: readonly GateRoute[]) => {
    const ports = {
      clock: systemClock,
      log: silentLog,
      stateDir: dir,
      footprintBytes: async () => undefined,
    };
    return openGate(
      {
        ...ports,
        processes: createInstances(ports).processes,
        folder: path.join(dir, "gate"),
        tempDir: dir,
        env: { PATH: process.env.PATH ?? "" },
        release: String(release),
        program: path.join(dir, "dist", "gate.cjs"),
      },
      routes,
    );
  };
  let gate = await open([route, otherRoute]);
  const urlOf = (at: number) => `http://127.0.0.1:${at}/v1/chat/completions`;
  return {
    direct: urlOf(port),
    gated: urlOf(listen.port),
    other: urlOf(otherRoute.listen.port),
    gate: () => gate,
    restartAgent: async (isUpgrade) => {
      gate.close();
      if (isUpgrade) release += 1;
      gate = await open();
    },
    passAll: async () => {
      const keyFile = path.join(dir, "keys");
      await writeFile(keyFile, `${KEY}\n`, { mode: 0o600 });
      await gate.set([{ ...route, protocol: "any", keyFiles: [keyFile] }]);
    },
    [Symbol.asyncDispose]: async () => {
      await gate.stopBy(performance.now() + 5_000);
      await daemon[Symbol.asyncDispose]();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** One request at a time on a kept-alive connection, direct and through the gate in turn. */
async function measureLatency(bed: GateBed, name: string): Promise<readonly ScenarioResult[]> {
  const agent = new Agent({ keepAlive: true });
  const direct: number[] = [];
  const gated: number[] = [];
  const added: number[] = [];
  for (let block = 0; block <= BLOCKS; block += 1) {
    const times = { direct: [] as number[], gated: [] as number[] };
    for (let index = 0; index < REQUESTS; index += 1) {
      for (const way of ["direct", "gated"] as const) {
        const from = performance.now();
        expectWhole(await ask(bed[way], agent, { content: PROMPT }));
        times[way].push(performance.now() - from);
      }
    }
    // The first block warms both up.
    if (block === 0) continue;
    direct.push(...times.direct);
    gated.push(...times.gated);
    added.push(summaryOf(times.gated).p99 - summaryOf(times.direct).p99);
  }
  agent.destroy();
  return [
    measured(`${name}, 1 request at a time: direct`, "ms", direct),
    measured(`${name}, 1 request at a time: through it`, "ms", gated),
    measured(`${name}, 1 request at a time: added p99 per block of ${REQUESTS}`, "ms", added, { p50: 1 }),
  ];
}

/** Ratio of direct to gated throughput, one per round; 1 means no loss. */
async function measureStreams(bed: GateBed, body: object): Promise<readonly number[]> {
  const agent = new Agent({ keepAlive: true });
  const run = async (url: string): Promise<number> => {
    const from = performance.now();
    const responses = Array.from({ length: STREAMS }, () => ask(url, agent, body));
    for (const response of await Promise.all(responses)) expectWhole(response);
    return performance.now() - from;
  };
  await run(bed.gated);
  const ratios: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const directMs = await run(bed.direct);
    ratios.push((await run(bed.gated)) / directMs);
  }
  agent.destroy();
  return ratios;
}

/** Bodies that are expensive to parse: a prefix and a repeated part. Each is incomplete, so none reaches the daemon. */
const HOSTILE: Readonly<Record<string, readonly [string, string]>> = {
  members: ["{", '"a":1,'],
  "objects in an array": ['{"a":[', '{"b":1},'],
  "escaped quotes": ['{"a":"', '\\"'],
};
const HOSTILE_BYTES = 63 * 1024 ** 2;
const HOSTILE_BODIES = 5;

/** Requests to one service, one at a time, while another service receives these bodies. */
async function measureNoisyNeighbor(bed: GateBed): Promise<readonly ScenarioResult[]> {
  const measurements: ScenarioResult[] = [];
  for (const [what, [start, repeated]] of Object.entries(HOSTILE)) {
    const body = Buffer.from(start + repeated.repeat(HOSTILE_BYTES / repeated.length));
    const agent = new Agent({ keepAlive: true });
    const times: number[] = [];
    let isOver = false;
    const sending = (async () => {
      for (let index = 0; index < HOSTILE_BODIES; index += 1) await sendBytes(bed.gated, body);
      isOver = true;
    })();
    while (!isOver) {
      const from = performance.now();
      expectWhole(await ask(bed.other, agent, { model: "other" }));
      times.push(performance.now() - from);
    }
    await sending;
    agent.destroy();
    measurements.push(
      measured(`gate, a request to a service while another gets 63 MiB of ${what}`, "ms", times, { p99: 50 }),
    );
  }
  return measurements;
}

/** Ignores the response, which may arrive before the whole body is sent. */
function sendBytes(url: string, body: Buffer): Promise<void> {
  return new Promise((resolve) => {
    const headers = { "content-type": "application/json", "content-length": body.length };
    const call = request(url, { method: "POST", agent: false, headers }, (response) => {
      response.resume().once("close", resolve);
      call.destroy();
    });
    call.once("error", () => resolve()).once("close", resolve);
    call.end(body);
  });
}

/** Most resident memory is pages of Node's own program, which the agent's process shares. */
async function measureMemory(bed: GateBed, name: string): Promise<readonly ScenarioResult[]> {
  const pid = (await bed.gate().status())?.pid;
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  const mb = (text: string, key: string) =>
    (Number(new RegExp(`^${key}:\\s+(\\d+) kB`, "m").exec(text)?.[1]) * 1_024) / 1e6;
  return [
    measured(`${name}: resident`, "MB", [mb(status, "VmRSS")]),
    measured(`${name}: anonymous`, "MB", [mb(status, "RssAnon")]),
    measured(`${name}: PSS (shared pages by share)`, "MB", [mb(rollup, "Pss")]),
  ];
}

/** Half of the clients keep their connection, and half request streams; restarts and upgrades are spread over the requests. */
async function measureLosses(bed: GateBed): Promise<readonly ScenarioResult[]> {
  let asked = 0;
  let succeeded = 0;
  const failed: string[] = [];
  const client = async (index: number) => {
    const agent = new Agent({ keepAlive: index % 2 === 0, maxSockets: 1 });
    while (asked < ALL_REQUESTS) {
      asked += 1;
      const response = await ask(
        bed.gated,
        agent,
        index % 4 < 2 ? {} : { stream: true, tokens: 5, everyMs: 2 },
      );
      if (response.isWhole) succeeded += 1;
      else failed.push(response.text);
    }
    agent.destroy();
  };
  const clients = Promise.all(Array.from({ length: CLIENTS }, (_, index) => client(index)));
  let upgrades = 0;
  for (let restart = 1; restart <= RESTARTS; restart += 1) {
    while (asked < (restart * ALL_REQUESTS) / (RESTARTS + 2))
      await new Promise((resolve) => setTimeout(resolve, 5));
    const isUpgrade = restart % UPGRADE_EVERY === 0;
    await bed.restartAgent(isUpgrade);
    if (isUpgrade) upgrades += 1;
  }
  const isAllDuringLoad = asked < ALL_REQUESTS;
  await clients;
  if (!isAllDuringLoad) throw new Error("the requests had finished before the restarts");
  if (failed.length > 0) console.error([...new Set(failed)].slice(0, 10).join("\n"));
  const name = `gate, ${RESTARTS} agent restarts and ${upgrades} gate upgrades`;
  return [
    measured(`${name}: all requests`, "requests", [succeeded + failed.length]),
    measured(`${name}: lost or truncated`, "requests", [failed.length], { max: 0 }),
  ];
}

interface GateResponse {
  readonly isWhole: boolean;
  /** The last bytes received, or the error. */
  readonly text: string;
}

function expectWhole({ isWhole, text }: GateResponse): void {
  if (!isWhole) throw new Error(`incomplete response: ${text}`);
}

function ask(url: string, agent: Agent, body: object): Promise<GateResponse> {
  return new Promise((resolve) => {
    const text = JSON.stringify({ model: "bench", ...body });
    const headers = {
      "content-type": "application/json",
      "content-length": Buffer.byteLength(text),
      authorization: `Bearer ${KEY}`,
    };
    const call = request(url, { method: "POST", agent, headers }, (response) => {
      let end = "";
      response.setEncoding("utf8").on("data", (chunk: string) => {
        end = (end + chunk).slice(-200);
      });
      response.once("end", () => {
        const isWhole = response.statusCode === 200 && /data: \[DONE\]\n\n$|"choices"/.test(end);
        resolve({ isWhole, text: `${response.statusCode} ${end}` });
      });
      response.once("error", (error) => resolve({ isWhole: false, text: `cut: ${error.message}` }));
    });
    call.once("error", (error) => resolve({ isWhole: false, text: error.message }));
    call.end(text);
  });
}
