/** `metalbridge version`: prints the version of this program. */
import type { Command } from "commander";
import { packageVersion } from "../local/package-root.ts";
import { printLine } from "./program/output.ts";

/** The action of the verb. */
export function configureVersion(command: Command): void {
  command.action(() => printLine(packageVersion()));
}
