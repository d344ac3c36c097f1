/** What would make a model fit a machine. Pure. */
import type { QueryRow } from "../../api/density.ts";
import { formatBytes, formatGib, GIB } from "../../parts/format.ts";

/** Empty for a machine that could take it now. `leftBytes`: memory for new claims, if known. */
export function adviceFor(row: QueryRow, leftBytes: number | undefined): string {
  // For a model that fits nowhere, the answer has its smallest quantization.
  if (row.fitLevel === "too_tight")
    return adviceForTooTight(
      row.model.memory_required_gb - row.model.memory_available_gb,
      row.model.best_quant,
    );
  if (row.stale) return "The machine does not report: check that it is on and its agent runs.";
  if (!row.schedulable) return "Uncordon the machine.";
  if (row.fitsNow) return "";
  if (leftBytes === undefined) return "Stop or move a replica on this machine.";
  const short = Math.max(0, row.model.memory_required_gb * GIB - leftBytes);
  return `Free ${formatBytes(short)}: stop or move a replica on this machine.`;
}

/** `quantization` is the smallest. */
export function adviceForTooTight(shortGb: number, quantization: string): string {
  const short = formatGib(Math.max(0, shortGb));
  return `${short} short, even with ${quantization}, the smallest quantization: choose a smaller model, or add a machine with more memory.`;
}
