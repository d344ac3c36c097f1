/** The reader of this machine's kind. */
import type { RunCommand } from "./command.ts";
import { createDarwinReader } from "./darwin/reader.ts";
import type { HostReader } from "./host-reader.ts";
import { createLinuxReader } from "./linux/reader.ts";

export function createHostReader(platform: "darwin" | "linux", run: RunCommand): HostReader {
  return platform === "darwin" ? createDarwinReader(run) : createLinuxReader();
}
