/** Memory, and how much of it the GPU gets. */
import { formatBytes } from "../../util/bytes.ts";
import { type Check, defineCheck } from "./check.ts";

const MIB = 2 ** 20;
const darwin = ["darwin"] as const;
/** A panic was reported at 123.4 of 128 GB wired (96 %). */
const MAX_WIRED = 0.92;

export const memoryChecks: readonly Check[] = [
  defineCheck({
    code: "WiredLimitTooHigh",
    title: "GPU memory limit",
    severity: "error",
    platforms: darwin,
    reason: "GPU memory cannot be paged out: if nearly all memory is wired, the kernel panics",
    needs: ["gpuMemory"],
    judge: ({ gpuMemory: { wiredLimitMb, totalBytes } }) =>
      wiredLimitMb * MIB <= totalBytes * MAX_WIRED
        ? []
        : [
            {
              finding: `iogpu.wired_limit_mb is ${wiredLimitMb}, which is ${formatBytes(wiredLimitMb * MIB)} of ${formatBytes(totalBytes)}`,
            },
          ],
  }),
  defineCheck({
    code: "WiredLimitLow",
    title: "GPU memory limit below the default",
    severity: "note",
    platforms: darwin,
    reason: "engines get less memory than this machine could give them; the setting is lost at the next boot",
    needs: ["gpuMemory"],
    judge: ({ gpuMemory: { wiredLimitMb, defaultBytes } }) =>
      wiredLimitMb === 0 || wiredLimitMb * MIB >= defaultBytes
        ? []
        : [
            {
              finding: `iogpu.wired_limit_mb is ${wiredLimitMb}; without it the GPU gets ${formatBytes(defaultBytes)}`,
            },
          ],
  }),
  defineCheck({
    code: "MemoryShort",
    title: "memory pressure",
    severity: "warning",
    reason: "under pressure no new engine starts; at Critical engines are evicted",
    linuxCommand: "ps aux --sort=-rss | head",
    needs: ["memory"],
    judge: ({ memory: { pressure } }) =>
      pressure === "Normal"
        ? []
        : [
            {
              finding: `memory pressure is ${pressure}`,
              severity: pressure === "Critical" ? "error" : "warning",
            },
          ],
  }),
  defineCheck({
    code: "SwapHeavy",
    title: "swap",
    severity: "warning",
    reason: "an engine that answers must wait until swapped-out memory is read back from the disk",
    needs: ["memory"],
    judge: ({ memory: { swapUsedBytes = 0, totalBytes } }) =>
      totalBytes === undefined || swapUsedBytes <= totalBytes / 2
        ? []
        : [
            {
              finding: `${formatBytes(swapUsedBytes)} are swapped out, of ${formatBytes(totalBytes)} installed`,
            },
          ],
  }),
  defineCheck({
    code: "PressureUnreadable",
    title: "memory pressure (PSI)",
    severity: "warning",
    platforms: ["linux"],
    reason: "without PSI the agent can only watch the free memory, which shows pressure late",
    needs: ["isPsiAvailable"],
    judge: ({ isPsiAvailable }) =>
      isPsiAvailable ? [] : [{ finding: "/proc/pressure/memory cannot be read" }],
  }),
];
