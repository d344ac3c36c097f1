/** How well a model fits a machine: a word, and a color that repeats it; a score as a bar. */

import type { StateWord } from "../../../src/console/rows.ts";
import type { FitLevel } from "../api/density.ts";
import { densityText } from "../texts/density.ts";
import { State } from "./state.tsx";
import "./fit.css";

const LEVELS: Readonly<Record<FitLevel, StateWord["level"]>> = {
  perfect: "ok",
  good: "ok",
  marginal: "warn",
  too_tight: "bad",
};

/** Best first. */
export const LEVELS_IN_ORDER = Object.keys(LEVELS) as readonly FitLevel[];

export function Fit({ level }: { readonly level: FitLevel }) {
  return <State state={{ word: densityText.levels[level], level: LEVELS[level] }} />;
}

/** 0 to 100. */
export function Score({ value }: { readonly value: number }) {
  return (
    <span className="score">
      <span className="score-track" aria-hidden>
        <span style={{ width: `${Math.min(100, Math.max(0, value))}%` }} />
      </span>
      <span className="number">{value.toFixed(1)}</span>
    </span>
  );
}
