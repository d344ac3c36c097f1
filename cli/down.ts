/** `metalbridge down`: stops the control plane of a folder. */

import path from "node:path";
import type { Command } from "commander";
import { findControlPlaneSession, stopSession } from "../local/control-plane/session.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { printLine } from "./program/output.ts";

const STOPPED_WITHIN_MS = 30_000;

/** Options and action of the verb. */
export function configureDown(command: Command): void {
  command
    .option("--dir <folder>", "folder passed to `metalbridge up`", ".metalbridge")
    .action((options: { readonly dir: string }) => down(path.resolve(options.dir)));
}

async function down(dir: string): Promise<void> {
  const other = await findControlPlaneSession(dir);
  if (other === undefined) {
    throw new MetalbridgeError("ControlPlaneNotRunning", `no control plane is running in ${dir}`, {
      summary: "there is nothing to stop; pass --dir for another folder",
    });
  }
  if (!(await stopSession(dir, STOPPED_WITHIN_MS))) {
    throw new MetalbridgeError(
      "ControlPlanePartFailed",
      `process ${other.pid} did not stop within ${STOPPED_WITHIN_MS / 1000} s`,
      { summary: "kill it; its parts stop with it", command: `kill -KILL ${other.pid}` },
    );
  }
  printLine("stopped");
}
