/** Repairs for `--fix`: only steps that need no root and lose no data. Each step is printed as the equivalent command. */
import { chmod, rm } from "node:fs/promises";
import { dirname, sep } from "node:path";
import { lockStateDir } from "../../agent/state-dir/lock.ts";
import type { CheckResult, Repair } from "../../src/doctor/checks/check.ts";
import type { RunTool } from "../../src/util/command.ts";
import { errorMessage } from "../../src/util/error-message.ts";

export interface Fixed {
  readonly code: string;
  readonly command: string;
  /** Absent after a success. */
  readonly failed?: string | undefined;
}

export interface FixPorts {
  readonly run: RunTool;
  readonly stateDir: string;
  readonly tempDir: string;
}

/** Repairs in the order of the results. A repair that fails does not stop the others. */
export async function fixAll(results: readonly CheckResult[], ports: FixPorts): Promise<readonly Fixed[]> {
  const fixed: Fixed[] = [];
  for (const { code, repair, fix } of results) {
    if (repair === undefined) continue;
    const failed = await apply(repair, ports).catch(errorMessage);
    fixed.push({ code, command: fix?.command ?? "", failed });
  }
  return fixed;
}

/** Resolves with the reason for a failure; rejects with the system error. */
async function apply(repair: Repair, ports: FixPorts): Promise<string | undefined> {
  switch (repair.do) {
    case "chmod":
      await chmod(repair.path, repair.mode);
      return undefined;
    case "excludeFromBackup": {
      const answer = await ports.run("tmutil", ["addexclusion", repair.path]);
      if ("failed" in answer) return answer.failed;
      return answer.code === 0 ? undefined : `tmutil exited with ${answer.code}: ${answer.stderr.trim()}`;
    }
    case "removeEngine":
      return removeEngine(repair.path, ports);
    default:
      return repair satisfies never;
  }
}

/** Holds the agent's lock, so that no agent starts in the meantime and adopts the folder. */
async function removeEngine(path: string, { stateDir, tempDir }: FixPorts): Promise<string | undefined> {
  if (!dirname(path).startsWith(stateDir + sep)) return `${path} is not in the state folder`;
  const lock = await lockStateDir(stateDir, tempDir);
  try {
    await rm(path, { recursive: true, force: true });
    return undefined;
  } finally {
    await lock.release();
  }
}
