/** Converts the output of a tool to a reading. If the tool fails or its output is not understood, the reading is unknown, with the reason. */
import type { Reading } from "../../doctor/readings.ts";
import type { RunTool } from "../../util/command.ts";

/** `parse` returns undefined for text that it does not understand. */
export async function readTool<T>(
  run: RunTool,
  command: readonly [program: string, ...args: readonly string[]],
  parse: (stdout: string) => T | undefined,
): Promise<Reading<T>> {
  const [program, ...args] = command;
  const result = await run(program, args);
  if ("failed" in result) return { unknown: result.failed };
  if (result.code !== 0) {
    const message = result.stderr.trim().split("\n")[0] ?? "";
    const suffix = message === "" ? "" : `: ${message}`;
    return { unknown: `${command.join(" ")} exited with ${result.code}${suffix}` };
  }
  const value = parse(result.stdout);
  return value === undefined
    ? { unknown: `the output of ${command.join(" ")} is not understood` }
    : { value };
}
