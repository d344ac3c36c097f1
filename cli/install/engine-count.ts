/** How many engines a state folder holds that serve, whether or not an agent runs. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { DAEMONS_FOLDER, ENGINES_FOLDER, GATE_FOLDER } from "../../agent/instances/instances.ts";
import { createIdentityReader } from "../../agent/instances/process/identity/identity.ts";
import { type ProcessMark, readRunFiles } from "../../agent/instances/run-files/run-directory.ts";
import { asOwnerOf } from "../../launchd/account-files.ts";
import { systemCode } from "../../src/util/atomic-file.ts";

/** What a folder of an engine, a shared daemon or a gate says. */
interface Found {
  readonly kind: string;
  readonly marks: readonly ProcessMark[];
  /** A replica has a reservation here. */
  readonly isReserved: boolean;
}

/**
 * By pid and start time, as the agent does: a pid alone may belong to a stranger by now. A replica in a daemon that others
 * started has no process of its own: it serves as long as a gate lives. Undefined when a folder or a mark cannot be read.
 */
export function countEngines(stateDir: string): number | undefined {
  const { startTimeNow } = createIdentityReader(process.platform);
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

/** Undefined where an error other than "there is none" hides what may be an engine that serves. */
function readFolders(stateDir: string): readonly Found[] | undefined {
  const found: Found[] = [];
  try {
    for (const kind of [ENGINES_FOLDER, DAEMONS_FOLDER, GATE_FOLDER])
      for (const name of namesIn(join(stateDir, kind))) {
        const dir = join(stateDir, kind, name);
        found.push({ kind, marks: marksIn(dir), isReserved: existsSync(join(dir, "engine.json")) });
      }
    return found;
  } catch (error) {
    if (systemCode(error) === undefined) throw error;
    return undefined;
  }
}

/** None where the files are not as the agent and its shim write them. */
function marksIn(dir: string): readonly ProcessMark[] {
  try {
    const { session, main } = readRunFiles(dir);
    return [session, main].filter((mark) => mark !== undefined);
  } catch (error) {
    return noneIf(error, ["EINVAL", "EFBIG", "ELOOP", "ENXIO", "EOPNOTSUPP"]);
  }
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
  } catch (error) {
    return noneIf(error, ["ENOENT", "ENOTDIR"]);
  }
}

function noneIf(error: unknown, codes: readonly string[]): readonly never[] {
  if (codes.includes(systemCode(error) ?? "")) return [];
  throw error;
}
