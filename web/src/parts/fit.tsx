/** How well a model fits a machine: a word, and a color that repeats it; a score as a bar. */
import type { StateWord } from "../../../src/console/rows.ts";
import type { FitLevel, ModelFit } from "../api/density.ts";
import { formatRate } from "./format.ts";
import { State } from "./state.tsx";

export const FIT_WORDS: Readonly<Record<FitLevel, StateWord>> = {
  perfect: { word: "Perfect fit", level: "ok" },
  good: { word: "Good fit", level: "ok" },
  marginal: { word: "Marginal fit", level: "warn" },
  too_tight: { word: "Too tight", level: "bad" },
};

/** Best first. */
export const LEVELS_IN_ORDER = Object.keys(FIT_WORDS) as readonly FitLevel[];

export function Fit({ level }: { readonly level: FitLevel }) {
  return <State state={FIT_WORDS[level]} />;
}

/** 0 to 100. */
export function Score({ value }: { readonly value: number }) {
  return (
    <span className="score">
      <span className="progress" aria-hidden>
        <span style={{ width: `${Math.min(100, Math.max(0, value))}%` }} />
      </span>
      <span className="number">{value.toFixed(1)}</span>
    </span>
  );
}

/** Estimated tokens per second with their interval. */
export function EstimatedSpeed({
  fit: { estimated_tps: value, estimated_tps_low: low, estimated_tps_high: high },
}: {
  readonly fit: ModelFit;
}) {
  return (
    <>
      {formatRate(value)}{" "}
      <span className="muted small">
        {formatRate(low)}–{formatRate(high)}
      </span>
    </>
  );
}
