/** llama-bench: its arguments and its output. Pure. */
import { z } from "zod";
import type { BenchmarkSettings } from "../../api/benchmark.ts";
import { engineFields } from "../../api/engine-settings.ts";
import { MetalbridgeError } from "../../api/errors.ts";
import { parseJson } from "../../util/parse-json.ts";
import type { BenchProgram, BenchSeries } from "../contract/bench.ts";
import { LLAMACPP_ROWS } from "./settings.ts";

/** More layers than any model has. llama-bench does not accept "all". */
const ALL = "999";

/** One line of `-o jsonl` is one test. */
const lineSchema = z.object({
  n_prompt: z.int(),
  n_gen: z.int(),
  n_depth: z.int().default(0),
  samples_ts: z.array(z.number().positive()).min(1),
});

/**
 * Each test is a process of its own, because llama-bench prints a test when it is complete and a limit of time must not lose the others.
 * Its own warm-up generates a single token, so that warm-ups are runs that the agent discards.
 */
export const llamaBench: BenchProgram = {
  tool: "llama-bench",
  tests: [
    { generation: { series: "generation" }, depth: 0 },
    { prompt: { series: "prompt512", tokens: 512 }, depth: 0 },
    { generation: { series: "generationAt4096" }, depth: 4096 },
    { prompt: { series: "prompt4096", tokens: 4096 }, depth: 0 },
  ],
  ownWarmups: 0,
  args: ({ modelPath, settings, test, tokens, runs }) => [
    ...[
      "-m",
      checked("the path of the model", modelPath, /^[^,]*$/),
      "-o",
      "jsonl",
      "--no-warmup",
      "-r",
      String(runs),
    ],
    ...["-p", String(test.prompt?.tokens ?? 0), "-n", test.generation === undefined ? "0" : String(tokens)],
    ...["-d", String(test.depth)],
    ...settingArgs(settings),
  ],
  parse: (output) => {
    const samples: Partial<Record<BenchSeries, readonly number[]>> = {};
    for (const line of output.split("\n")) {
      const parsed = line.startsWith("{") ? lineSchema.safeParse(parseJson(line)) : undefined;
      if (parsed?.success !== true) continue;
      const series = seriesOf(parsed.data);
      if (series !== undefined) samples[series] = parsed.data.samples_ts;
    }
    return samples;
  },
};

function seriesOf({ n_prompt, n_gen, n_depth }: z.output<typeof lineSchema>): BenchSeries | undefined {
  if (n_gen > 0 && n_prompt === 0)
    return n_depth === 0 ? "generation" : n_depth === 4096 ? "generationAt4096" : undefined;
  if (n_gen > 0 || n_depth > 0) return undefined;
  return n_prompt === 512 ? "prompt512" : n_prompt === 4096 ? "prompt4096" : undefined;
}

/** The same settings as those that llama-server gets. Throws `BenchmarkNotSupported` for a value that it would not accept. */
function settingArgs(settings: BenchmarkSettings): readonly string[] {
  const { gpuLayers = "-1", moeCPUOffload, moeCPULayers } = settings;
  const areExpertsOnCpu = moeCPUOffload !== undefined && argumentOf("moeCPUOffload", moeCPUOffload) === "1";
  const texts: Readonly<Record<string, string | undefined>> = {
    ...settings,
    gpuLayers: gpuLayers === "-1" ? ALL : gpuLayers,
    moeCPULayers: areExpertsOnCpu ? ALL : moeCPULayers,
  };
  return LLAMACPP_ROWS.flatMap(([name, { bench }]) => {
    const text = texts[name];
    return bench === undefined || bench === "combined" || text === undefined
      ? []
      : [bench, argumentOf(name, text)];
  });
}

/**
 * A value that the setting may have, with numbers for true and false, which builds of any age accept. llama-bench takes a list or a
 * range of numbers as several tests.
 */
function argumentOf(name: keyof typeof engineFields, text: string): string {
  const value = parseJson(text);
  if (engineFields[name].safeParse(value).success && value !== undefined) return String(Number(value));
  // Data types of the cache include those of cacheTypeCustomK and cacheTypeCustomV.
  if (name.startsWith("cacheType")) return checked(name, text, /^[a-z0-9_]+$/i);
  throw refused(name, text);
}

/** llama-bench takes a path with a comma as two. */
function checked(what: string, value: string, allowed: RegExp): string {
  if (allowed.test(value)) return value;
  throw refused(what, value);
}

function refused(what: string, value: string): MetalbridgeError {
  return new MetalbridgeError("BenchmarkNotSupported", `llama-bench cannot take ${what} "${value}"`);
}
