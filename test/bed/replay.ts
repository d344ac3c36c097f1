/** Makes executables that print what a recorded Mac printed, to stand first on a PATH. */
import { readdirSync } from "node:fs";
import { chmod, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const RECORDINGS = join(import.meta.dirname, "..", "macos");

export interface Replay extends AsyncDisposable {
  /** A PATH with the replayed tools first. */
  readonly path: string;
  /** Makes one tool answer nothing, in one of the ways that tools have. */
  readonly breakTool: (name: string, fault?: Fault) => Promise<void>;
  /** Overrides one line of sysctl. */
  readonly setKey: (key: string, value: string) => Promise<void>;
}

/** silent: exit 1. denied: a sentence and exit 1. slow: never. garbage: unparseable output and exit 0. missing: no such program. */
export type Fault = "silent" | "denied" | "slow" | "garbage" | "missing";

const FAULTS: Readonly<Record<Exclude<Fault, "missing">, string>> = {
  silent: "exit 1",
  denied: "echo 'Operation not permitted' >&2; exit 1",
  slow: "exec sleep 600",
  garbage: "head -c 4096 /dev/urandom",
};

/** Every recorded machine. */
export function recordedMachines(): readonly string[] {
  const entries = readdirSync(RECORDINGS, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

export const M4_MAX = "mac16-5-m4-max-48gb-macos-15.6";

/** `machine` is a folder of test/macos, or the path of one elsewhere. */
export async function startReplay(machine: string): Promise<Replay> {
  const recorded = resolve(RECORDINGS, machine);
  const bin = await mkdtemp(join(tmpdir(), "mb-replay-"));
  const overrides = join(bin, "overrides.txt");
  await writeFile(overrides, "");
  const tools: Record<string, string> = {
    sw_vers: `cat "${recorded}/sw_vers.txt"`,
    vm_stat: `cat "${recorded}/vm_stat.txt"`,
    // ioreg -r -d 1 -w 0 -c CLASS
    ioreg: `for last; do :; done; cat "${recorded}/ioreg-$last.txt"`,
    // footprint -p PID -f bytes --noCategories
    footprint:
      'echo "engine [$2]: 64-bit    Footprint: 104857600 B (16384 bytes per page)"; echo "    phys_footprint: 104857600 B"',
    sysctl: `exec awk '${sysctlAwk(overrides, join(recorded, "sysctl.txt"))}' "$@"`,
  };
  const write = async (name: string, body: string): Promise<void> => {
    await writeFile(join(bin, name), `#!/bin/sh\n${body}\n`);
    await chmod(join(bin, name), 0o755);
  };
  for (const [name, body] of Object.entries(tools)) await write(name, body);
  return {
    path: `${bin}:/usr/bin:/bin`,
    // The tools of this machine come later on the PATH, and none of them has these names.
    breakTool: (name, fault = "silent") =>
      fault === "missing" ? rm(join(bin, name)) : write(name, FAULTS[fault]),
    setKey: async (key, value) => {
      // Whole or not at all, and the newest first: sysctl may read it at any moment.
      const before = await readFile(overrides, "utf8");
      await writeFile(`${overrides}.new`, `${key}: ${value}\n${before}`);
      await rename(`${overrides}.new`, overrides);
    },
    [Symbol.asyncDispose]: () => rm(bin, { recursive: true, force: true }),
  };
}

/**
 * One process, as sysctl itself: the bench measures what the agent's tools cost. Of two lines for a key the first counts.
 * Unknown keys: a sentence on stderr and 1 at the end, after everything known was printed.
 */
function sysctlAwk(...files: readonly string[]): string {
  return `
function keep(line, key) {
  key = line
  sub(/: .*/, "", key)
  if (!(key in known)) known[key] = line
}
BEGIN {
  ${files.map((file) => `while ((getline line < "${file}") > 0) keep(line)`).join("\n  ")}
  for (i = 1; i < ARGC; i++)
    if (ARGV[i] in known) print known[ARGV[i]]
    else {
      print "sysctl: unknown oid " ARGV[i] > "/dev/stderr"
      failed = 1
    }
  exit failed
}`;
}
