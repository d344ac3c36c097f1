/** Reads reports of kernel panics and of processes that were killed under memory pressure. */
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { CrashReport, Reading } from "../../doctor/readings.ts";
import { systemCode } from "../../util/atomic-file.ts";

export const REPORTS_FOLDER = "/Library/Logs/DiagnosticReports";
const MAX_REPORTS = 50;

/** Reads the newest reports, which does not require root. */
export async function readCrashes(folder: string): Promise<Reading<readonly CrashReport[]>> {
  try {
    const names = (await readdir(folder)).filter((name) => kindOf(name) !== undefined);
    const files = await Promise.all(names.map((name) => timed(join(folder, name))));
    const newest = files.sort((a, b) => b.atMs - a.atMs).slice(0, MAX_REPORTS);
    return { value: await Promise.all(newest.map(read)) };
  } catch (error) {
    return { unknown: `${folder} cannot be read (${systemCode(error) ?? error})` };
  }
}

function kindOf(name: string): CrashReport["kind"] | undefined {
  if (/\.panic$|^panic-full-/i.test(name)) return "panic";
  return /^JetsamEvent-/.test(name) ? "jetsam" : undefined;
}

async function timed(file: string): Promise<{ readonly file: string; readonly atMs: number }> {
  return { file, atMs: (await stat(file)).mtimeMs };
}

async function read({ file, atMs }: { readonly file: string; readonly atMs: number }): Promise<CrashReport> {
  const kind = kindOf(file.slice(file.lastIndexOf("/") + 1)) ?? "jetsam";
  // Only the time of a jetsam report is needed, and its text has megabytes.
  const text = kind === "panic" ? await readFile(file, "utf8").catch(() => "") : "";
  return { kind, file, atMs, isGpu: /IOGPU/.test(text) };
}
