/** The machine itself: system, chip, heat, crashes. */
import { type Check, defineCheck } from "./check.ts";

const OLDEST_MACOS = 14;
const WEEK_MS = 7 * 24 * 3_600_000;
const darwin = ["darwin"] as const;

export const machineChecks: readonly Check[] = [
  defineCheck({
    code: "MacosTooOld",
    title: "macOS version",
    severity: "warning",
    platforms: darwin,
    reason: "engines are built and tested for current versions; an old one gets no security updates",
    needs: ["machine"],
    judge: ({ machine: { osVersion } }) => {
      const major = Number.parseInt(osVersion, 10);
      return major >= OLDEST_MACOS
        ? []
        : [{ finding: `this is macOS ${osVersion}; ${OLDEST_MACOS} or newer is needed` }];
    },
  }),
  defineCheck({
    code: "ChipNotSupported",
    title: "Apple silicon",
    severity: "error",
    platforms: darwin,
    reason: "the engines' GPU code, and the memory it shares with the CPU, need an M-series chip",
    needs: ["machine"],
    judge: ({ machine: { chip } }) =>
      chip === undefined || chip.startsWith("Apple ") ? [] : [{ finding: `this Mac has an ${chip}` }],
  }),
  defineCheck({
    code: "NodeTranslated",
    title: "native Node",
    severity: "warning",
    platforms: darwin,
    reason: "translated programs need more CPU and memory, and engines that they start may be translated too",
    needs: ["program"],
    judge: ({ program: { isTranslated, nodeArch } }) =>
      isTranslated ? [{ finding: `Node is built for ${nodeArch} and runs under Rosetta` }] : [],
  }),
  defineCheck({
    code: "UpdatesRestartHost",
    title: "automatic macOS updates",
    severity: "note",
    platforms: darwin,
    reason: "a restart for an update stops all engines without a drain",
    needs: ["updates"],
    judge: ({ updates: { isAutomatic } }) =>
      isAutomatic ? [{ finding: "macOS updates are installed automatically" }] : [],
  }),
  defineCheck({
    code: "KernelPanicked",
    title: "kernel panics",
    severity: "error",
    platforms: darwin,
    reason: "using more GPU memory than the machine has causes a kernel panic, which stops every engine",
    needs: ["crashes", "nowMs"],
    judge: ({ crashes, nowMs }) =>
      crashes
        .filter(({ kind, atMs }) => kind === "panic" && nowMs - atMs < WEEK_MS)
        .map(({ file, atMs, isGpu }) => ({
          finding: `the kernel panicked at ${new Date(atMs).toISOString()}${isGpu ? ", in GPU memory (IOGPUMemory)" : ""}: ${file}`,
          command: `less ${quoted(file)}`,
        })),
  }),
  defineCheck({
    code: "JetsamKilled",
    title: "processes killed for memory",
    severity: "warning",
    platforms: darwin,
    reason: "macOS kills the largest processes when memory runs out, which are the engines",
    needs: ["crashes", "nowMs"],
    judge: ({ crashes, nowMs }) => {
      const recent = crashes.filter(({ kind, atMs }) => kind === "jetsam" && nowMs - atMs < WEEK_MS);
      const [newest] = recent.toSorted((a, b) => b.atMs - a.atMs);
      if (newest === undefined) return [];
      const finding = `${recent.length} jetsam events within a week, the last at ${new Date(newest.atMs).toISOString()}`;
      return [{ finding, command: `less ${quoted(newest.file)}` }];
    },
  }),
  defineCheck({
    code: "OomKilled",
    title: "processes killed for memory",
    severity: "warning",
    platforms: ["linux"],
    reason: "the kernel kills the largest processes when memory runs out, which are the engines",
    needs: ["oomKills"],
    judge: ({ oomKills }) =>
      oomKills === 0 ? [] : [{ finding: `${oomKills} processes were killed since the last boot` }],
  }),
  defineCheck({
    code: "ThermalThrottled",
    title: "heat",
    severity: "warning",
    platforms: darwin,
    reason: "a throttled machine generates fewer tokens per second than placement expects of it",
    needs: ["thermal"],
    judge: ({ thermal: { speedLimitPercent = 100, warningLevel = 0 } }) => {
      // Rounded to tens: each change of the text is a write of the Host, which all hosts watch.
      if (speedLimitPercent < 100)
        return [
          { finding: `the processor is limited to ${Math.ceil(speedLimitPercent / 10) * 10}% or less` },
        ];
      return warningLevel === 0 ? [] : [{ finding: `the system has thermal warning level ${warningLevel}` }];
    },
  }),
];

/** Quotes a text as one shell word. */
export function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
