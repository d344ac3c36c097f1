/** `metalbridge fit --compat llmfit`: computes the fit with the formulas of llmfit. */
import type { LlmfitRow } from "../../fitness/llmfit/fit.ts";
import type { LlmfitSystem } from "../../fitness/llmfit/system.ts";
import type { Machine } from "../../fitness/scoring/machine.ts";
import { formatTable } from "../program/table.ts";

const GIB = 1024 ** 3;
/** Share of manually specified memory that llmfit counts as free. */
const FREE_SHARE = 0.9;

export function renderLlmfit(rows: readonly LlmfitRow[]): string {
  const head = ["MODEL", "SCORE", "FIT", "MODE", "QUANTIZATION", "MEMORY", "TOKENS/S"];
  const cells = rows.map((row) => [
    ...[row.name, row.score.toFixed(1), row.fit_level, row.run_mode, row.best_quant],
    ...[
      `${row.memory_required_gb.toFixed(2)} / ${row.memory_available_gb.toFixed(2)}`,
      row.estimated_tps.toFixed(1),
    ],
  ]);
  return formatTable(head, cells);
}

export function llmfitSystem({ chip, memoryBytes, cpuCores, generation }: Machine): LlmfitSystem {
  const totalGb = memoryBytes / GIB;
  const isApple = generation !== undefined;
  const base = { availableRamGb: totalGb * FREE_SHARE, cpuCores, isArm: isApple };
  if (!isApple) return base;
  return {
    ...base,
    gpu: {
      name: /apple/i.test(chip) ? chip : `Apple ${chip}`,
      vramGb: totalGb,
      isUnified: true,
      backend: "Metal",
    },
  };
}
