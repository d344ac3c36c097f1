/** Counts the running engines of a state folder, with or without a running agent. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { DAEMONS_FOLDER, ENGINES_FOLDER, GATE_FOLDER } from "../../agent/instances/instances.ts";
import { asOwnerOf } from "../../launchd/account-files.ts";
import { createIdentityReader } from "../../src/supervise/identity/identity.ts";
import { type ProcessMark, readRunFiles } from "../../src/supervise/run-directory.ts";
import { systemCode } from "../../src/util/atomic-file.ts";
import { listSubfolders } from "../../src/util/folder.ts";

/** The run folder of an engine, a shared daemon or a gate. */
interface RunFolder {
  readonly kind: string;
  readonly marks: readonly ProcessMark[];
  /** True if the folder holds the reservation of a replica. */
  readonly isReserved: boolean;
}

/**
 * Identifies processes by pid and start time, as the agent does, because a pid can be reused. A replica in a daemon that the
 * agent did not start has no process: it serves while a gate is running. Undefined if a folder or a mark cannot be read.
 */
export function countEngines(stateDir: string): number | undefined {
  const { startTimeNow } = createIdentityReader(process.platform);
  const isAlive = ({ marks }: RunFolder) =>
    marks.some(({ pid, startTime }) => [startTime, "unknown"].includes(startTimeNow(pid) ?? ""));
  const found = asOwnerOf(stateDir, () => readFolders(stateDir));
  if (found === undefined) return undefined;
  const gates = found.filter((one) => one.kind === GATE_FOLDER && isAlive(one));
  const engines = found.filter(
    (one) => one.kind !== GATE_FOLDER && (isAlive(one) || (one.isReserved && gates.length > 0)),
  );
  return Math.max(engines.length, gates.length);
}

/** Undefined if an unreadable folder may hide a running engine. A missing folder is empty. */
function readFolders(stateDir: string): readonly RunFolder[] | undefined {
  const found: RunFolder[] = [];
  try {
    for (const kind of [ENGINES_FOLDER, DAEMONS_FOLDER, GATE_FOLDER])
      for (const name of listSubfolders(join(stateDir, kind))) {
        const dir = join(stateDir, kind, name);
        found.push({ kind, marks: marksIn(dir), isReserved: existsSync(join(dir, "engine.json")) });
      }
    return found;
  } catch (error) {
    if (systemCode(error) === undefined) throw error;
    return undefined;
  }
}

/** Empty if the files are not of the kind that the agent and its shim write. */
function marksIn(dir: string): readonly ProcessMark[] {
  try {
    const { session, main } = readRunFiles(dir);
    return [session, main].filter((mark) => mark !== undefined);
  } catch (error) {
    if (["EINVAL", "EFBIG", "ELOOP", "ENXIO", "EOPNOTSUPP"].includes(systemCode(error) ?? "")) return [];
    throw error;
  }
}
