/** From an accepted InferenceService to a running engine, and from a healthy engine to a ready endpoint. */
import { statSync } from "node:fs";
import { request } from "node:http";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { readRecord } from "../../../src/supervise/run-directory.ts";
import type { Bed } from "../beds/bed.ts";
import { measured, type ScenarioResult } from "../beds/measurement.ts";

const HEALTH_POLL_MS = 3;

/** Creates `count` services one after the other; they are left running. */
export async function measureStarts(bed: Bed, count: number): Promise<readonly ScenarioResult[]> {
  const started: number[] = [];
  const announced: number[] = [];
  const applied: number[] = [];
  for (let index = 0; index < count; index++) {
    const name = `bench-${index}`;
    const acceptedAt = await bed.createService(name);
    const healthy = healthyAt(bed, name);
    const readyAt = bed.untilServing(name).then(() => Date.now());
    const [healthyMs, readyMs] = await Promise.all([healthy, readyAt]);
    // The shim writes this file right after it has started the engine.
    started.push(statSync(path.join(runDirectory(bed, name) ?? "", "pid")).mtimeMs - acceptedAt);
    announced.push(Math.max(0, readyMs - healthyMs));
    // Without what the engine itself needs to load its weights.
    const startedMs = started.at(-1) ?? 0;
    applied.push(startedMs + (announced.at(-1) ?? 0));
  }
  return [
    measured("service accepted → engine started", "ms", started, { p50: 60, p99: 150 }),
    measured("engine healthy → slice ready", "ms", announced, { p99: 100 }),
    measured("service accepted → slice ready, without the engine's own loading", "ms", applied, {
      p50: 130,
      p99: 200,
    }),
  ];
}

/** Wall time at which the engine's own /health first said 200, asked from outside the agent. */
export async function healthyAt(bed: Bed, name: string): Promise<number> {
  return (await healthyIn(await bed.changed.until(`a replica of ${name}`, () => runDirectory(bed, name)))).at;
}

/** The same for the engine of a run directory, and its port. */
export async function healthyIn(dir: string): Promise<{ readonly at: number; readonly port: number }> {
  for (;;) {
    const record = readRecord(dir);
    const port = typeof record === "object" && record !== null ? Reflect.get(record, "port") : undefined;
    if (typeof port === "number" && (await isHealthy(port))) return { at: Date.now(), port };
    await pause(HEALTH_POLL_MS);
  }
}

function isHealthy(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const call = request(
      { host: "127.0.0.1", port, path: "/health", agent: false, timeout: 1_000 },
      (response) => {
        response.resume();
        resolve(response.statusCode === 200);
      },
    );
    call.once("error", () => resolve(false));
    call.end();
  });
}

export function runDirectory(bed: Bed, service: string): string | undefined {
  const [replica] = bed.replicasOf(service);
  return replica?.metadata.uid === undefined
    ? undefined
    : path.join(bed.fleet.stateDir, "engines", replica.metadata.uid);
}
