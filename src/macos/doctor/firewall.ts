/** Reads the state of the application firewall and its decision for each engine's program. Matches loosely, because the wording differs by version. */
import type { Firewall, Reading } from "../../doctor/readings.ts";
import type { RunTool } from "../../util/command.ts";
import { readTool } from "./reading.ts";

/** Folder of the tool, which is not on the PATH. */
export const FIREWALL_FOLDER = "/usr/libexec/ApplicationFirewall";
const TOOL = "socketfilterfw";

/** `programs` must have real paths, because the firewall stores those. */
export async function readFirewall(
  run: RunTool,
  programs: readonly { readonly engine: string; readonly path: string }[],
): Promise<Reading<Firewall>> {
  const [state, all] = await Promise.all([
    readTool(run, [TOOL, "--getglobalstate"], parseState),
    readTool(run, [TOOL, "--getblockall"], parseBlockAll),
  ]);
  if ("unknown" in state) return state;
  if (state.value === "off") return { value: { state: "off", programs: [] } };
  const isAll = state.value === "blockAll" || ("value" in all && all.value);
  const verdicts = programs.map(async ({ engine, path }) => {
    const result = await run(TOOL, ["--getappblocked", path]);
    const text = "failed" in result ? "" : result.stdout + result.stderr;
    return { engine, path, verdict: verdictOf(text) };
  });
  return { value: { state: isAll ? "blockAll" : "on", programs: await Promise.all(verdicts) } };
}

function parseState(text: string): Firewall["state"] | undefined {
  const number = /State = (\d)/.exec(text)?.[1];
  if (number === "2") return "blockAll";
  if (number === "1" || /enabled/i.test(text)) return "on";
  return number === "0" || /disabled/i.test(text) ? "off" : undefined;
}

function parseBlockAll(text: string): boolean | undefined {
  if (/disabled/i.test(text)) return false;
  return /enabled|blocking all/i.test(text) ? true : undefined;
}

function verdictOf(text: string): Firewall["programs"][number]["verdict"] {
  if (/not part of/i.test(text)) return "unlisted";
  if (/permitted/i.test(text)) return "permitted";
  return /block/i.test(text) ? "blocked" : "unknown";
}
