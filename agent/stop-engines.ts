/** Ends what is still left of any engine in a state folder, after they were drained: nothing may outlive a demo. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { waitMs } from "../src/kube/wait.ts";
import type { Clock, Log } from "../src/ports.ts";
import type { EngineProcess, EngineProcesses } from "./process/engine-process.ts";
import { removeEngineFile } from "./replicas/files/engine-record.ts";

const TERM_AGAIN_MS = 500;
const KILL_MS = 1_500;
const GONE_MS = 5_000;
const POLL_MS = 20;

export async function stopEngines(
  stateDir: string,
  {
    processes,
    clock,
    log,
  }: { readonly processes: EngineProcesses; readonly clock: Clock; readonly log: Log },
): Promise<void> {
  const folder = join(stateDir, "engines");
  const names = await readdir(folder).catch(() => []);
  await Promise.all(
    names.map(async (name) => {
      const engine = await processes
        .adoptEngine(join(folder, name), () => undefined)
        .catch((err: unknown) => {
          log.error({ err, engine: name }, "whether an engine runs could not be read; it is left alone");
        });
      if (engine === undefined) return;
      const wasAlive = engine.state().at !== "gone";
      if (wasAlive) await end(engine, clock);
      engine.close();
      // Its end was wanted: the next start must not take it for a crash.
      if (wasAlive && engine.state().at === "gone") removeEngineFile(engine.dir);
      log.info({ engine: name, state: engine.state().at }, "engine stopped with the agent");
    }),
  );
}

/** TERM, TERM, KILL, then the rest of its group. */
async function end(engine: EngineProcess, clock: Clock): Promise<void> {
  const startedMs = clock.monotonicMs();
  let done = 0;
  const steps: readonly (readonly [number, () => void])[] = [
    [0, () => engine.signal("TERM")],
    [TERM_AGAIN_MS, () => engine.signal("TERM")],
    [KILL_MS, () => engine.signal("KILL")],
  ];
  const never = new AbortController().signal;
  while (engine.state().at !== "gone" && clock.monotonicMs() - startedMs < GONE_MS) {
    const next = steps[done];
    if (engine.state().at === "ended") engine.killGroup();
    else if (next !== undefined && clock.monotonicMs() - startedMs >= next[0]) {
      next[1]();
      done += 1;
    }
    await waitMs(clock, POLL_MS, never);
  }
  if (engine.state().at !== "gone") engine.killGroup();
}
