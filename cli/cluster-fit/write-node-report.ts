/** The program of a probe pod: reads the node through the pod's /proc and /sys, and writes the report to the termination message. */

import { writeFile } from "node:fs/promises";
import { readEnvironment } from "../../agent/config/environment.ts";
import { rootsUnder } from "../../agent/host/linux/roots.ts";
import { createNodeReader } from "../../agent/node/read.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { createRunCommand } from "../../src/util/command.ts";
import { printLine } from "../program/output.ts";

/** Maximum size of a termination message. The kubelet truncates a longer one. */
const MAX_BYTES = 4096;

/** The report omits installed programs, because it must be short and a pod sees no files of the node. */
export async function writeNodeReport(file: string, root = "/"): Promise<void> {
  const report = await createNodeReader({
    roots: { ...rootsUnder(root), isOwn: false },
    installed: undefined,
    run: createRunCommand(readEnvironment().toolPath),
    clock: systemClock,
  }).read();
  const text = JSON.stringify(report);
  const short = Buffer.byteLength(text) <= MAX_BYTES ? text : JSON.stringify({ ...report, leftOut: [] });
  printLine(short);
  await writeFile(file, short);
}
