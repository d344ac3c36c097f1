/** The reader of this machine's kind. */
import { readFile } from "node:fs/promises";
import type { HostReader } from "../../src/macos/host-reader.ts";
import { parseSysctl } from "../../src/macos/parse.ts";
import { createDarwinReader } from "../../src/macos/reader.ts";
import type { RunCommand } from "../../src/util/command.ts";
import { createLinuxReader } from "./linux/reader.ts";

/** `runOften` runs what is read every few seconds, where that costs less. */
export function createHostReader(
  platform: "darwin" | "linux",
  run: RunCommand,
  runOften: RunCommand = run,
): HostReader {
  return platform === "darwin" ? createDarwinReader(run, runOften) : createLinuxReader(run);
}

/** Identifies this boot of the machine, whatever the clock was set to since; undefined if the system has no such id. */
export async function readBootId(platform: "darwin" | "linux", run: RunCommand): Promise<string | undefined> {
  if (platform === "darwin")
    return parseSysctl((await run("sysctl", ["kern.bootsessionuuid"])) ?? "").get("kern.bootsessionuuid");
  const text = await readFile("/proc/sys/kernel/random/boot_id", "utf8").catch(() => undefined);
  return text?.trim();
}
