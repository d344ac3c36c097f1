/** The reader of this machine's platform. */
import { readFile } from "node:fs/promises";
import type { HostReader } from "../../src/macos/host-reader.ts";
import { parseSysctl } from "../../src/macos/parse.ts";
import { createDarwinReader } from "../../src/macos/reader.ts";
import type { RunCommand } from "../../src/util/command.ts";
import { createLinuxReader } from "./linux/reader.ts";

/** `runOften`: a cheaper way to run the tools that are needed every few seconds. */
export function createHostReader(
  platform: "darwin" | "linux",
  run: RunCommand,
  runOften: RunCommand = run,
): HostReader {
  return platform === "darwin" ? createDarwinReader(run, runOften) : createLinuxReader(run);
}

/** Identifies this boot of the machine independently of its clock; undefined if the system has no such id. */
export async function readBootId(platform: "darwin" | "linux", run: RunCommand): Promise<string | undefined> {
  if (platform === "darwin")
    return parseSysctl((await run("sysctl", ["kern.bootsessionuuid"])) ?? "").get("kern.bootsessionuuid");
  const text = await readFile("/proc/sys/kernel/random/boot_id", "utf8").catch(() => undefined);
  return text?.trim();
}
