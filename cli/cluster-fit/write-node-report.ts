/** What a probe pod does: reads its node through the pod's own /proc and /sys, and leaves the answer where the kubelet finds it. */

import { writeFile } from "node:fs/promises";
import { readEnvironment } from "../../agent/config/environment.ts";
import { rootsUnder } from "../../agent/host/linux/roots.ts";
import { createNodeReader } from "../../agent/node/read.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { createRunCommand } from "../../src/util/command.ts";
import { writeOut } from "../program/output.ts";

/** More of a termination message is cut off. */
const MAX_BYTES = 4096;

/** The report of a node without what is installed: it has to be short, and a pod sees no files of the node. */
export async function writeNodeReport(file: string, root = "/"): Promise<void> {
  const report = await createNodeReader({
    roots: { ...rootsUnder(root), isOwn: false },
    installed: undefined,
    run: createRunCommand(readEnvironment().toolPath),
    clock: systemClock,
  }).read();
  const text = JSON.stringify(report);
  const short = Buffer.byteLength(text) <= MAX_BYTES ? text : JSON.stringify({ ...report, leftOut: [] });
  writeOut(`${short}\n`);
  await writeFile(file, short);
}
