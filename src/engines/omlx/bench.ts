/** mlx_lm.benchmark, which measures MLX for oMLX: its arguments and its output. Pure. */
import type { BenchProgram } from "../contract/bench.ts";

const SHORT = 512;
const LONG = 4096;
const TRIAL = /^Trial \d+: .*?\bprompt_tps=([\d.]+), generation_tps=([\d.]+)/;

/** It has no generation without a prompt, so `generation` follows the short prompt. */
export const mlxBench: BenchProgram = {
  tool: "mlx_lm.benchmark",
  tests: [
    {
      prompt: { series: "prompt512", tokens: SHORT },
      generation: { series: "generation" },
      depth: 0,
    },
    {
      prompt: { series: "prompt4096", tokens: LONG },
      generation: { series: "generationAt4096" },
      depth: 0,
    },
  ],
  ownWarmups: 1,
  args: ({ modelPath, test, tokens, runs }) => [
    ...["--model", modelPath, "-p", String(test.prompt?.tokens ?? SHORT)],
    ...["-g", String(tokens), "-n", String(runs)],
  ],
  parse: (output) => {
    const lines = output.split("\n");
    const trials = lines.flatMap((line) => {
      const [, prompt = 0, generation = 0] = (TRIAL.exec(line) ?? []).map(Number);
      return prompt > 0 && generation > 0 ? [{ prompt, generation }] : [];
    });
    const [prompt, generation] = [trials.map((one) => one.prompt), trials.map((one) => one.generation)];
    if (trials.length === 0) return {};
    return lines.some((line) => line.startsWith(`Timing with prompt_tokens=${LONG},`))
      ? { prompt4096: prompt, generationAt4096: generation }
      : { prompt512: prompt, generation };
  },
};
