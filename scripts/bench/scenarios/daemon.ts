/** A further model on a daemon that runs: what the agent and the controller take beside the daemon's own work. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { readPartsConfig } from "../../../local/control-plane/config.ts";
import { findOllama } from "../../../local/control-plane/engine-programs.ts";
import { openNetwork } from "../../../test/bed/network.ts";
import { freePort } from "../../../test/bed/ports.ts";
import { until } from "../../../test/bed/until.ts";
import { addFleet, type Bed } from "../beds/bed.ts";
import { measured, type ScenarioResult } from "../beds/measurement.ts";
import { openPlane } from "../beds/plane.ts";

const MODELS = 10;
const OURS_MS = 100;

/** None where Ollama is not installed. */
export async function measureDaemon(): Promise<readonly ScenarioResult[]> {
  const program = findOllama(readPartsConfig());
  if (program === undefined) {
    console.error("daemon: skipped, Ollama is not installed (brew install ollama)");
    return [];
  }
  await using plane = await openPlane();
  const daemon = plane.use(await startDaemon(program, plane.dir));
  const { gateway } = plane.use(await openNetwork([]));
  const config = { ollama: { address: daemon.address } };
  const bed = await addFleet(plane, { address: gateway, agents: [{ config }] });
  await serveModel(bed, daemon, 0);
  const times: Times[] = [];
  for (let index = 1; index <= MODELS; index += 1) times.push(await serveModel(bed, daemon, index));
  const name = "another model on a running Ollama";
  return [
    measured(
      `${name}: ours`,
      "ms",
      times.map(({ ours }) => ours),
      { p50: OURS_MS },
    ),
    measured(
      `${name}: ours before the load`,
      "ms",
      times.map(({ before }) => before),
    ),
    measured(
      `${name}: ours after it`,
      "ms",
      times.map(({ ours, before }) => ours - before),
    ),
    measured(
      `${name}: Ollama's own`,
      "ms",
      times.map(({ theirs }) => theirs),
    ),
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
  await bed.createModel(bed.fleet.modelsDir, { seed: index + 2 }, name);
  daemon.calls.length = 0;
  const from = performance.now();
  await bed.createService(name, { modelRef: name, runtime: "ollama" });
  await bed.untilServing(name);
  const to = performance.now();
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
  const noting = createServer((asked, response) => {
    const call: Call = { route: asked.url ?? "", from: performance.now(), to: Number.POSITIVE_INFINITY };
    calls.push(call);
    response.once("close", () => {
      call.to = performance.now();
    });
    pass(asked, response, port);
  });
  noting.listen(0, "127.0.0.1");
  await once(noting, "listening");
  const ended = once(child, "exit");
  await until(() => fetch(`http://127.0.0.1:${port}/api/version`), { everyMs: 20, ended });
  return {
    address: `127.0.0.1:${(noting.address() as AddressInfo).port}`,
    calls,
    [Symbol.asyncDispose]: async () => {
      noting.closeAllConnections();
      noting.close();
      if (child.exitCode === null && child.kill("SIGTERM")) await ended;
    },
  };
}

function pass(asked: IncomingMessage, outbound: ServerResponse, port: number): void {
  const { method = "GET", url = "/", headers } = asked;
  const call = request({ host: "127.0.0.1", port, method, path: url, headers, agent: false }, (response) => {
    outbound.writeHead(response.statusCode ?? 502, response.headers);
    response.pipe(outbound);
  });
  call.once("error", () => outbound.destroy());
  asked.pipe(call);
}
