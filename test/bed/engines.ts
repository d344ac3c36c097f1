/** The engines of an agent's state folder, as the system sees them. */
import { existsSync, readdirSync } from "node:fs";
import path from "node:path";
import { DAEMONS_FOLDER, ENGINES_FOLDER, GATE_FOLDER } from "../../agent/instances/instances.ts";
import { readRunFiles } from "../../src/supervise/run-directory.ts";
import { isAlive, send } from "./signal.ts";

/** Pids of the main processes that live, by replica uid. */
export function livingEngines(stateDir: string): ReadonlyMap<string, number> {
  return livingIn(path.join(stateDir, ENGINES_FOLDER));
}

function livingIn(folder: string): ReadonlyMap<string, number> {
  const entries = existsSync(folder) ? readdirSync(folder, { withFileTypes: true }) : [];
  const uids = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  const living = new Map<string, number>();
  for (const uid of uids) {
    const { main, exit } = readRunFiles(path.join(folder, uid));
    if (main !== undefined && exit === undefined && isAlive(main.pid)) living.set(uid, main.pid);
  }
  return living;
}

/** Kills the engines, their daemons and the gate that an agent under test left running, as it is designed to, when the test finishes. */
export function killEngines(stateDir: string): void {
  const folderOf = (name: string) => path.join(stateDir, name);
  const processes = [ENGINES_FOLDER, GATE_FOLDER].flatMap((name) => [...livingIn(folderOf(name)).values()]);
  // With their shims, because Ollama's runners outlive a killed server.
  const groups = [...livingIn(folderOf(DAEMONS_FOLDER)).keys()].flatMap((name) => {
    const { session } = readRunFiles(path.join(folderOf(DAEMONS_FOLDER), name));
    return session === undefined ? [] : [-session.pid];
  });
  for (const pid of [...processes, ...groups]) send(pid, "SIGKILL");
}
