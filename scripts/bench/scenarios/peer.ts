/** A model from a host that has it, over loopback: against a raw TLS stream of the same file, and beside the engine of the server. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { readPartsConfig } from "../../../local/control-plane/config.ts";
import { findLlamaServer } from "../../../local/control-plane/engine-programs.ts";
import { writeTinyModel } from "../../../local/demo/tiny-model.ts";
import { ONE_THREAD } from "../../../test/bed/agent.ts";
import { freePort } from "../../../test/bed/ports.ts";
import { run, UNHURRIED } from "../../../test/bed/run.ts";
import { failedRequests, REQUESTS_PER_S, startLoad } from "../beds/load.ts";
import { measured, type ScenarioResult, summaryOf } from "../beds/measurement.ts";

const ROUNDS = 3;
/** As agents give where the configuration says nothing. */
const DEFAULT_RATE = 100 << 20;
const PHASES = 5;
const PHASE_MS = 5_000;
/** The start of the process that takes is not what is measured. */
const START_MS = 3_000;
const TRANSFER_MS = START_MS + PHASE_MS + 2_000;
const worker = (name: string) => fileURLToPath(new URL(`../workers/${name}.ts`, import.meta.url));

export async function measurePeer(sizeBytes: number): Promise<readonly ScenarioResult[]> {
  const dir = await mkdtemp(path.join(tmpdir(), "metalbridge-peer-"));
  try {
    return [...(await measureThroughput(dir, sizeBytes)), ...(await measureInference(dir))];
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

interface Taken {
  readonly ms: number;
  readonly growthBytes: number;
}

interface PeerBed extends AsyncDisposable {
  /** In a process of its own; what was taken is removed. */
  readonly take: (how: "raw" | "stored" | "peer" | "chunks") => Promise<Taken>;
}

/** `maxRate`: bytes per second; absent: as fast as it can. */
async function startPeer(dir: string, sizeBytes: number, maxRate?: number): Promise<PeerBed> {
  const store = path.join(dir, "server");
  const limits = maxRate === undefined ? [] : [String(maxRate)];
  const serverArguments = ["--import", "tsx", worker("peer-server"), store, String(sizeBytes), ...limits];
  const peer = spawn(process.execPath, serverArguments, { stdio: ["pipe", "pipe", "inherit"] });
  const closed = once(peer, "close");
  const [offer] = await once(peer.stdout, "data");
  return {
    take: async (how) => {
      const taken = path.join(dir, "client");
      const args = ["--import", "tsx", worker("peer-client"), how, taken, String(offer).trim()];
      // It is another machine's work: the work of the server goes first.
      const printed = await run("nice", ["-n", "19", process.execPath, ...args], UNHURRIED);
      await rm(taken, { recursive: true, force: true });
      return JSON.parse(printed) as Taken;
    },
    [Symbol.asyncDispose]: async () => {
      peer.stdin.end();
      await closed;
      await rm(store, { recursive: true, force: true });
    },
  };
}

async function measureThroughput(dir: string, sizeBytes: number): Promise<readonly ScenarioResult[]> {
  await using peer = await startPeer(dir, sizeBytes);
  const toRaw: number[] = [];
  const toStored: number[] = [];
  const growths: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const raw = await peer.take("raw");
    const stored = await peer.take("stored");
    const taken = await peer.take("peer");
    toRaw.push(taken.ms / raw.ms);
    toStored.push(taken.ms / stored.ms);
    growths.push(taken.growthBytes / 1e6);
  }
  return [
    measured("a model from a peer, verified and published, to a raw TLS stream", "ratio", toRaw, {
      p50: 1.25,
    }),
    measured(
      "a model from a peer, verified and published, to a raw TLS stream that is hashed and written",
      "ratio",
      toStored,
      { p50: 1.25 },
    ),
    measured("a model from a peer: memory that it adds", "MB", growths, { max: 30 }),
  ];
}

/** Phases with and without a transfer, in turn. What who takes does with the bytes is another machine's work, and left out. */
async function measureInference(dir: string): Promise<readonly ScenarioResult[]> {
  await using peer = await startPeer(dir, (DEFAULT_RATE * TRANSFER_MS) / 1_000, DEFAULT_RATE);
  await using engine = await startEngine(dir);
  const load = await startLoad(undefined, engine.url);
  const phase = async () => {
    const from = Date.now();
    await pause(PHASE_MS);
    const to = Date.now();
    return () =>
      load.responses.filter(({ startedAt }) => startedAt >= from && startedAt < to).map(({ ms }) => ms);
  };
  const quiet: (() => number[])[] = [];
  const giving: (() => number[])[] = [];
  for (let round = 0; round < PHASES; round++) {
    quiet.push(await phase());
    const taken = peer.take("chunks");
    await pause(START_MS);
    giving.push(await phase());
    await taken;
  }
  const responses = await load.stop();
  const tail = (times: () => number[]) => summaryOf(times()).p99;
  const noise = Math.max(...quiet.map(tail));
  const name = `engine beside a transfer to a peer, ${REQUESTS_PER_S} requests/s`;
  return [
    measured(
      `${name}: response, without`,
      "ms",
      quiet.flatMap((one) => one()),
    ),
    measured(
      `${name}: response, with one`,
      "ms",
      giving.flatMap((one) => one()),
    ),
    measured(
      `${name}: p99 with, to the worst p99 without`,
      "ratio",
      giving.map((one) => tail(one) / noise),
      { p50: 1 },
    ),
    failedRequests(name, responses),
  ];
}

async function startEngine(dir: string): Promise<AsyncDisposable & { readonly url: string }> {
  const program = findLlamaServer(readPartsConfig());
  if (program === undefined) throw new Error("there is no llama-server: npm run setup");
  const model = path.join(dir, "engine.gguf");
  await writeTinyModel(model);
  const port = String(await freePort());
  const args = ["--model", model, "--host", "127.0.0.1", "--port", port, "--ctx-size", "1024"];
  const engine = spawn(program, [...args, ...ONE_THREAD], { stdio: "ignore" });
  const closed = once(engine, "close");
  return {
    // The load begins to count with the first response.
    url: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => {
      engine.kill();
      await closed;
    },
  };
}
