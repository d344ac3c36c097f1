/** From the death of an engine to its return, weights warm, beside what the engine itself needs to load them. */
import { statSync } from "node:fs";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { RESTARTS_RESET_AFTER_MS } from "../../../src/api/inference-replica.ts";
import { type Bed, openBed } from "../beds/bed.ts";
import { measured, type ScenarioResult } from "../beds/measurement.ts";
import { isSliceReady } from "../beds/plane.ts";
import { healthyAt, runDirectory } from "./start.ts";

const ROUNDS = 5;
const SETTLED_MS = 5_000;

/** Kills each engine once while it is young: a second crash within ten minutes is held back, on purpose. */
export async function measureRecovery(): Promise<readonly ScenarioResult[]> {
  const loading = await measureLoading();
  const tiny = await measureTiny();
  return [...loading, ...tiny];
}

async function measureLoading(): Promise<readonly ScenarioResult[]> {
  await using bed = await openBed(MODEL);
  const loads: number[] = [];
  const recoveries: number[] = [];
  const shares: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const name = `recovery-${round}`;
    await bed.createService(name);
    await bed.untilServing(name);
    const { loadMs, recoveredMs } = await killOnce(bed, name);
    loads.push(loadMs);
    recoveries.push(recoveredMs);
    shares.push(recoveredMs / (1.2 * loadMs + 1_000));
  }
  return [
    measured("the engine's own load time, warm", "ms", loads),
    measured("engine killed → serves again", "ms", recoveries),
    measured("engine killed → serves again, to 1.2 × load + 1 s", "ratio", shares, { max: 1 }),
  ];
}

/** A model that loads at once: what is left is the agent's own time. The second kill comes when a run that long no longer counts as young. */
async function measureTiny(): Promise<readonly ScenarioResult[]> {
  await using bed = await openBed();
  const young: number[] = [];
  const old: number[] = [];
  const names = Array.from({ length: ROUNDS }, (_, round) => `young-${round}`);
  for (const name of names) {
    await bed.createService(name);
    await bed.untilServing(name);
    young.push((await killOnce(bed, name)).recoveredMs);
  }
  await pause(RESTARTS_RESET_AFTER_MS + SETTLED_MS);
  for (const name of names) old.push((await killOnce(bed, name)).recoveredMs);
  return [
    measured("engine of a tiny model killed, its first crash → serves again", "ms", young, { p50: 350 }),
    measured("engine of a tiny model killed, ten minutes after a crash → serves again", "ms", old, {
      p50: 350,
    }),
  ];
}

/** As many tokens as large models know: loading takes a while and a request does not, as on a GPU. */
const MODEL = { vocabularySize: 256_000 };

async function killOnce(bed: Bed, service: string) {
  const replica = bed.replicas.list().find(({ metadata }) => metadata.name.startsWith(`${service}-`));
  const key = `${replica?.metadata.namespace}/${replica?.metadata.name}`;
  const isServing = () => isSliceReady(bed.slices.get(key));
  const killedAt = Date.now();
  process.kill(replica?.status?.pid ?? 0, "SIGKILL");
  await bed.changed.until(`the withdrawal of ${key}`, () => (isServing() ? undefined : true));
  const servesAt = bed.changed.until(`${key} to serve again`, () => (isServing() ? Date.now() : undefined));
  const pidFile = path.join(runDirectory(bed, service) ?? "", "pid");
  const startedAt = await startAfter(pidFile, killedAt);
  const loadMs = (await healthyAt(bed, service)) - startedAt;
  return { loadMs, recoveredMs: (await servesAt) - killedAt };
}

const POLL_MS = 3;

/** The shim writes this file right after it has started the engine. */
async function startAfter(pidFile: string, wallMs: number): Promise<number> {
  for (;;) {
    const at = statSync(pidFile, { throwIfNoEntry: false })?.mtimeMs ?? 0;
    if (at > wallMs) return at;
    await pause(POLL_MS);
  }
}
