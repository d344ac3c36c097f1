/** A further model on a daemon that runs: what the agent and the controller take beside the daemon's own work. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { readPartsConfig } from "../../../local/control-plane/config.ts";
import { findOllama } from "../../../local/control-plane/engine-programs.ts";
import { writeTinyModel } from "../../../local/demo/tiny-model.ts";
import { openNetwork } from "../../../test/bed/network.ts";
import { addFleet, type Bed, disposedOnFailure } from "../beds/bed.ts";
import type { Measurement } from "../beds/measurement.ts";
import { openPlane } from "../beds/plane.ts";
import { isReadySliceOf } from "./start.ts";

const MODELS = 10;
const OURS_MS = 100;

/** None where Ollama is not installed. */
export async function measureDaemon(): Promise<readonly Measurement[]> {
  const program = findOllama(readPartsConfig());
  if (program === undefined) {
    console.error("daemon: skipped, Ollama is not installed (brew install ollama)");
    return [];
  }
  const plane = await openPlane();
  await using daemon = await disposedOnFailure(plane, () => startDaemon(program, plane.dir));
  await using bed = await disposedOnFailure(plane, async () => {
    const network = await openNetwork([]);
    plane.atEnd(async () => network[Symbol.asyncDispose]());
    const config = { ollama: { address: daemon.address } };
    return addFleet(plane, { address: network.gateway, agents: [{ config }] });
  });
  await serveModel(bed, daemon, 0);
  const times: Times[] = [];
  for (let index = 1; index <= MODELS; index += 1) times.push(await serveModel(bed, daemon, index));
  const name = "another model on a running Ollama";
  const limit = { statistic: "p50", limit: OURS_MS } as const;
  return [
    { name: `${name}: ours`, unit: "ms", samples: times.map(({ ours }) => ours), targets: [limit] },
    {
      name: `${name}: ours before the load`,
      unit: "ms",
      samples: times.map(({ before }) => before),
      targets: [],
    },
    {
      name: `${name}: ours after it`,
      unit: "ms",
      samples: times.map(({ ours, before }) => ours - before),
      targets: [],
    },
    { name: `${name}: Ollama's own`, unit: "ms", samples: times.map(({ theirs }) => theirs), targets: [] },
  ];
}

interface Times {
  readonly ours: number;
  readonly before: number;
  readonly theirs: number;
}

/** With weights of its own. What is not spent in a request to the daemon is ours. */
async function serveModel(bed: Bed, daemon: Daemon, index: number): Promise<Times> {
  const name = `daemon-${index}`;
  const source = path.join(bed.farm.modelsDir, `${name}.gguf`);
  await writeTinyModel(source, { seed: index + 2 });
  await bed.createModel(source, name);
  daemon.calls.length = 0;
  const from = performance.now();
  await bed.createService(name, { modelRef: name, runtime: "ollama" });
  const to = await bed.changed.until(`a ready slice of ${name}`, () =>
    bed.slices.list().some((slice) => isReadySliceOf(slice, name)) ? performance.now() : undefined,
  );
  const loadedAt = daemon.calls.find(({ route }) => route === "/api/generate")?.from ?? to;
  const theirs = busyMs(daemon.calls, from, to);
  const before = loadedAt - from - busyMs(daemon.calls, from, loadedAt);
  return { ours: to - from - theirs, before, theirs };
}

interface Call {
  readonly route: string;
  readonly from: number;
  to: number;
}

interface Daemon extends AsyncDisposable {
  readonly address: string;
  /** Every request of the agent, when it came and when it was answered; monotonic. */
  readonly calls: Call[];
}

/** How much of that time any request was open. */
function busyMs(calls: readonly Call[], from: number, to: number): number {
  let busy = 0;
  let end = from;
  for (const call of [...calls].sort((one, other) => one.from - other.from)) {
    const begin = Math.max(end, call.from);
    end = Math.max(end, Math.min(call.to, to));
    busy += Math.max(0, end - begin);
  }
  return busy;
}

/** One that the agent finds, behind a port that notes what is asked. */
async function startDaemon(program: string, dir: string): Promise<Daemon> {
  const calls: Call[] = [];
  const port = await freePort();
  const env = {
    PATH: process.env.PATH ?? "",
    HOME: path.join(dir, "ollama"),
    OLLAMA_HOST: `127.0.0.1:${port}`,
  };
  const child = spawn(program, ["serve"], { env, stdio: "ignore" });
  const noting = createServer((asked, answer) => {
    const call: Call = { route: asked.url ?? "", from: performance.now(), to: Number.POSITIVE_INFINITY };
    calls.push(call);
    answer.once("close", () => {
      call.to = performance.now();
    });
    pass(asked, answer, port);
  });
  noting.listen(0, "127.0.0.1");
  await once(noting, "listening");
  await untilAnswering(port, child);
  return {
    address: `127.0.0.1:${(noting.address() as AddressInfo).port}`,
    calls,
    [Symbol.asyncDispose]: async () => {
      noting.closeAllConnections();
      noting.close();
      const ended = once(child, "exit");
      if (child.exitCode === null && child.kill("SIGTERM")) await ended;
    },
  };
}

function pass(asked: IncomingMessage, answer: ServerResponse, port: number): void {
  const { method = "GET", url = "/", headers } = asked;
  const call = request({ host: "127.0.0.1", port, method, path: url, headers, agent: false }, (response) => {
    answer.writeHead(response.statusCode ?? 502, response.headers);
    response.pipe(answer);
  });
  call.once("error", () => answer.destroy());
  asked.pipe(call);
}

async function untilAnswering(port: number, child: ChildProcess): Promise<void> {
  while (
    !(await fetch(`http://127.0.0.1:${port}/api/version`).then(
      ({ ok }) => ok,
      () => false,
    ))
  ) {
    if (child.exitCode !== null) throw new Error(`ollama serve ended with ${child.exitCode}`);
    await pause(20);
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
