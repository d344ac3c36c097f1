/** Mean power of the machine or of its GPUs while a benchmark generates, where a program reports it without root. */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { parseJson } from "../../src/util/parse-json.ts";
import { locateProgram } from "../engines/io/program.ts";

interface PowerProgram {
  readonly name: string;
  readonly paths: readonly string[];
  readonly args: readonly string[];
  /** Watts of one line; undefined if it has none. */
  readonly parse: (line: string) => number | undefined;
}

const PROGRAMS: Readonly<Record<"darwin" | "linux", PowerProgram>> = {
  darwin: {
    name: "macmon",
    paths: ["/opt/homebrew/bin/macmon", "/usr/local/bin/macmon"],
    args: ["pipe", "-i", "1000"],
    parse: parseMacmon,
  },
  linux: {
    name: "nvidia-smi",
    paths: [],
    // One line per GPU and second; without a GPU the program fails at once.
    args: ["--query-gpu=count,power.draw", "--format=csv,noheader,nounits", "-l", "1"],
    parse: parseNvidia,
  },
};

export interface PowerWatch {
  /** Stops reading. Mean of the readings in watts; undefined if there are none. */
  readonly stop: () => number | undefined;
}

/** Starts the platform's program, if it is installed. It ends with the agent, when it can no longer write to it. */
export async function watchPower(
  platform: "darwin" | "linux",
  env: Readonly<Record<string, string>>,
): Promise<PowerWatch> {
  const { name, paths, args, parse } = PROGRAMS[platform];
  const path = await locateProgram(name, { paths, env }).catch(() => undefined);
  if (path === undefined) return { stop: () => undefined };
  const watts: number[] = [];
  const child = spawn(path.path, args, { env, stdio: ["ignore", "pipe", "ignore"] });
  child.once("error", () => {});
  createInterface({ input: child.stdout }).on("line", (line) => {
    const found = parse(line);
    if (found !== undefined && Number.isFinite(found) && found >= 0) watts.push(found);
  });
  return {
    stop: () => {
      child.kill("SIGKILL");
      return watts.length === 0 ? undefined : watts.reduce((sum, one) => sum + one, 0) / watts.length;
    },
  };
}

/** `sys_power` is that of the whole machine; some Macs report only that of the chip. */
export function parseMacmon(line: string): number | undefined {
  const value = parseJson(line);
  if (typeof value !== "object" || value === null) return undefined;
  const powers = value as { readonly sys_power?: unknown; readonly all_power?: unknown };
  return [powers.sys_power, powers.all_power].find(
    (one): one is number => typeof one === "number" && one > 0,
  );
}

/** The mean of all lines is that of one GPU, so each line is multiplied by the number of GPUs. */
export function parseNvidia(line: string): number | undefined {
  const [count = Number.NaN, draw = Number.NaN] = line.split(",").map(Number);
  return count > 0 && draw >= 0 ? count * draw : undefined;
}
