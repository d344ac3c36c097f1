/** How many engines a state folder holds that serve, whether or not an agent runs. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { systemCode } from "../../agent/atomic-file.ts";
import { DAEMONS_FOLDER, ENGINES_FOLDER, GATE_FOLDER } from "../../agent/instances/instances.ts";
import { createIdentity } from "../../agent/instances/process/identity/identity.ts";
import { type ProcessMark, readRunFiles } from "../../agent/instances/process/run-directory.ts";
import { asOwnerOf } from "../../launchd/account-files.ts";

/** What a folder of an engine, a shared daemon or a gate says. */
interface Found {
  readonly kind: string;
  readonly marks: readonly ProcessMark[];
  /** A replica has a reservation here. */
  readonly isReserved: boolean;
}

/**
 * By pid and start time, as the agent does: a pid alone may belong to a stranger by now. A replica in a daemon that others
 * started has no process of its own: it serves as long as a gate lives. Undefined when the folder may not be read.
 */
export function countEngines(stateDir: string): number | undefined {
  const { startTimeNow } = createIdentity(process.platform);
  const isAlive = ({ marks }: Found) =>
    marks.some(({ pid, startTime }) => [startTime, "unknown"].includes(startTimeNow(pid) ?? ""));
  const found = asOwnerOf(stateDir, () => readFolders(stateDir));
  if (found === undefined) return undefined;
  const gates = found.filter((one) => one.kind === GATE_FOLDER && isAlive(one));
  const engines = found.filter(
    (one) => one.kind !== GATE_FOLDER && (isAlive(one) || (one.isReserved && gates.length > 0)),
  );
  return Math.max(engines.length, gates.length);
}

function readFolders(stateDir: string): readonly Found[] | undefined {
  const found: Found[] = [];
  for (const kind of [ENGINES_FOLDER, DAEMONS_FOLDER, GATE_FOLDER]) {
    const names = namesIn(join(stateDir, kind));
    if (names === undefined) return undefined;
    for (const name of names) {
      const dir = join(stateDir, kind, name);
      found.push({ kind, marks: marksIn(dir), isReserved: existsSync(join(dir, "engine.json")) });
    }
  }
  return found;
}

/** None where the files are not as the agent and its shim write them. */
function marksIn(dir: string): readonly ProcessMark[] {
  try {
    const { session, main } = readRunFiles(dir);
    return [session, main].filter((mark) => mark !== undefined);
  } catch {
    return [];
  }
}

/** Undefined when the folder may not be read. */
function namesIn(folder: string): readonly string[] | undefined {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
  } catch (error) {
    return systemCode(error) === "EACCES" ? undefined : [];
  }
}
