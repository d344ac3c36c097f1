/** Stops all processes that a drain has left in a state folder, so that no process outlives a demo. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { waitMs } from "../../src/kube/wait.ts";
import { removeRun } from "../../src/supervise/run-directory.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import type { Instance } from "./instance.ts";
import { DAEMONS_FOLDER, ENGINES_FOLDER, GATE_FOLDER, type Instances } from "./instances.ts";

const STOP_MS = 1_500;
const GONE_MS = 5_000;
/** Polls, because no event reports that all have exited, and the agent has nothing else left to do. */
const POLL_MS = 20;

interface Ports {
  readonly instances: Pick<Instances, "processes">;
  readonly clock: Clock;
  readonly log: Log;
}

/** Resolves once all have exited, or could not be stopped in time. */
export async function stopEngines(stateDir: string, ports: Ports): Promise<void> {
  const folders = [ENGINES_FOLDER, DAEMONS_FOLDER, GATE_FOLDER].map((name) => join(stateDir, name));
  const found = await Promise.all(
    folders.map(async (folder) =>
      (await readdir(folder, { withFileTypes: true }).catch(() => []))
        .filter((entry) => entry.isDirectory())
        .map(({ name }) => stopOne(join(folder, name), ports)),
    ),
  );
  await Promise.all(found.flat());
}

async function stopOne(dir: string, { instances, clock, log }: Ports): Promise<void> {
  const place = { dir, log, onChange: () => undefined };
  const engine = await instances.processes
    .adopt(place, { host: "127.0.0.1", port: 0 })
    .catch((err: unknown) => {
      log.error({ err, dir }, "cannot read whether an engine runs; it is not stopped");
    });
  if (engine === undefined) return;
  const wasAlive = engine.state().at !== "gone";
  if (wasAlive) await stop(engine, clock);
  engine.close();
  // This exit was requested: the next start must not count it as a crash.
  if (wasAlive && engine.state().at === "gone") removeRun(dir);
  log.info({ dir, state: engine.state().at }, "engine stopped with the agent");
}

async function stop(engine: Instance, clock: Clock): Promise<void> {
  const startedMs = clock.monotonicMs();
  engine.stopBy(startedMs + STOP_MS);
  const never = new AbortController().signal;
  while (engine.state().at !== "gone" && clock.monotonicMs() - startedMs < GONE_MS)
    await waitMs(clock, POLL_MS, never);
}
