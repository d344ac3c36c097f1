/** The first request to an idle model, with a real agent and engine, beside what the engine itself needs for it. */
import { statSync } from "node:fs";
import { Agent } from "node:http";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { INFERENCE_SERVICES } from "../../../../src/api/kinds.ts";
import { type Bed, openBed } from "../../beds/bed.ts";
import { startBenchGateway } from "../../beds/gateway.ts";
import { measured, type ScenarioResult } from "../../beds/measurement.ts";
import { NAMESPACE } from "../../beds/plane.ts";
import { healthyIn } from "../start.ts";
import { ask, chatPath, closeConnections, openConnections, type Way } from "./requests.ts";

const ALONE = ["sleeper-1", "sleeper-2", "sleeper-3"];
const CROWDED = "sleeper-4";
const WAITING = 100;
const IDLE_LIMIT_MS = 180_000;
const POLL_MS = 3;
const SETTLE_MS = 3_000;
const SPEC = {
  parallelSlots: 4,
  contextSize: 1_024,
  idle: { afterMinutes: 1, minimumResidencySeconds: 0 },
};

export async function measureWakes(): Promise<readonly ScenarioResult[]> {
  await using bed = await openBed();
  const names = [...ALONE, CROWDED];
  for (const name of names) await bed.createService(name, SPEC);
  for (const name of names) await bed.untilServing(name);
  const gateway = await startBenchGateway(bed);
  const way = { name: "gateway", url: chatPath(gateway.url) };
  const services = bed.watch(INFERENCE_SERVICES);
  const isIdle = (name: string) => services.get(`${NAMESPACE}/${name}`)?.status?.phase === "Idle";
  await bed.changed.until("idle services", () => names.every(isIdle) || undefined, IDLE_LIMIT_MS);
  const waits: number[] = [];
  const later: number[] = [];
  for (const name of ALONE) {
    // What came before needs the cores for a moment.
    await pause(SETTLE_MS);
    const { responseMs, engineMs } = await wake(bed, way, name);
    waits.push(responseMs);
    later.push(responseMs - engineMs);
  }
  const connections = openConnections(WAITING);
  await Promise.all(connections.map((agent) => ask(way, agent, bodyFor(CROWDED))));
  closeConnections(connections);
  const replicas = bed.replicasOf(CROWDED);
  const starts = replicas.reduce((sum, { status }) => sum + 1 + (status?.restarts ?? 0), 0);
  const name = "gateway, idle tiny model";
  return [
    measured(`${name}: request → first token`, "ms", waits),
    measured(`${name}: first token, later than the engine's own`, "ms", later, { max: 150 }),
    measured(`${name}: starts for ${WAITING} waiting requests, beyond one`, "restarts", [starts - 1], {
      max: 0,
    }),
  ];
}

/** The engine's own time is from the start of its process to the first 200 of /health, and a first token asked of it directly. */
async function wake(bed: Bed, way: Way, name: string) {
  const response = ask(way, new Agent(), bodyFor(name));
  const [{ ms }, started] = await Promise.all([response, startOf(bed, name, Date.now())]);
  const direct = { name: "engine", url: chatPath(`http://127.0.0.1:${started.port}`) };
  const token = await ask(direct, new Agent(), bodyFor(name));
  return { responseMs: ms, engineMs: started.ms + token.ms };
}

/** The replica may be another than before. The shim writes the file right after it has started the engine. */
async function startOf(bed: Bed, name: string, sinceMs: number) {
  for (;;) {
    for (const { metadata } of bed.replicasOf(name)) {
      const dir = path.join(bed.fleet.stateDir, "engines", metadata.uid ?? "");
      const startedMs = statSync(path.join(dir, "pid"), { throwIfNoEntry: false })?.mtimeMs ?? 0;
      if (startedMs > sinceMs) {
        const { at, port } = await healthyIn(dir);
        return { ms: at - startedMs, port };
      }
    }
    await pause(POLL_MS);
  }
}

/** One token. */
function bodyFor(model: string): string {
  return JSON.stringify({ model, stream: true, max_tokens: 1, messages: [{ role: "user", content: "Hi" }] });
}
