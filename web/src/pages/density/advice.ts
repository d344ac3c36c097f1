/** What would make a model fit a machine. Pure. */

import type { QueryRow } from "../../api/density.ts";
import { formatBytes, formatGib, GIB } from "../../parts/format.ts";
import { densityText } from "../../texts/density.ts";

/** Empty for a machine that could take it now. `leftBytes`: memory for new claims, if known. */
export function adviceFor(row: QueryRow, leftBytes: number | undefined): string {
  const words = densityText.advice;
  // For a model that fits nowhere, the answer has its smallest quantization.
  if (row.fitLevel === "too_tight")
    return words.tooTight(
      formatGib(Math.max(0, row.model.memory_required_gb - row.model.memory_available_gb)),
      row.model.best_quant,
    );
  if (row.stale) return words.stale;
  if (!row.schedulable) return words.cordoned;
  if (row.fitsNow) return "";
  if (leftBytes === undefined) return words.occupiedUnknown;
  return words.occupied(formatBytes(Math.max(0, row.model.memory_required_gb * GIB - leftBytes)));
}
