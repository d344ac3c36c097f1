/** `metalbridge down`: stops the control plane that runs on a folder. */

import path from "node:path";
import type { Command } from "commander";
import { findControlPlaneSession, stopSession } from "../local/control-plane/session.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { writeOut } from "./program/output.ts";

const STOPPED_WITHIN_MS = 30_000;

/** Options and action of the verb. */
export function configureDown(command: Command): void {
  command
    .option("--dir <folder>", "the folder given to `metalbridge up`", ".metalbridge")
    .action((options: { readonly dir: string }) => down(path.resolve(options.dir)));
}

async function down(dir: string): Promise<void> {
  const other = await findControlPlaneSession(dir);
  if (other === undefined) {
    throw new MetalbridgeError("ControlPlaneNotRunning", `no control plane runs on ${dir}`, {
      summary: "nothing is to be done; another folder can be named with --dir",
    });
  }
  if (!(await stopSession(dir, STOPPED_WITHIN_MS))) {
    throw new MetalbridgeError(
      "ControlPlanePartFailed",
      `process ${other.pid} did not stop within ${STOPPED_WITHIN_MS / 1000} s`,
      { summary: "end it by force; its parts end with it", command: `kill -KILL ${other.pid}` },
    );
  }
  writeOut("stopped\n");
}
