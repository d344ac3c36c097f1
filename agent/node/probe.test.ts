/** The answer of a probe pod, which sees the node's /proc and /sys, and no device of it. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { readNodeReport } from "../../src/api/node-report.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { readAsProbe } from "./main.ts";

const GIB = 1024 ** 3;

test("a probe pod without devices answers how much memory an AMD GPU has", async () => {
  await using folder = await temporaryFolder();
  const card = "sys/class/drm/card0/device";
  const tree = {
    "proc/meminfo": "MemTotal: 65806196 kB\nMemAvailable: 48231128 kB\n",
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC 9354\n",
    "dev/null": "",
    [`${card}/vendor`]: "0x1002\n",
    [`${card}/uevent`]: "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n",
    [`${card}/mem_info_vram_total`]: `${192 * GIB}\n`,
  };
  for (const [path, text] of Object.entries(tree)) {
    mkdirSync(dirname(join(folder.path, path)), { recursive: true });
    writeFileSync(join(folder.path, path), text);
  }

  expect(readNodeReport(await readAsProbe(folder.path))).toMatchObject({
    at: "known",
    report: { gpus: [{ vendor: "amd", memoryBytes: 192 * GIB, count: 1, unified: false }], leftOut: [] },
  });
});
