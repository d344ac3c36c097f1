/** States one after another on a thin line, with how long each lasted. */
import type { StateWord } from "../../../src/console/rows.ts";
import { useNow } from "../live/hooks.ts";
import { formatDuration } from "./format.ts";
import { formatMoment } from "./time.tsx";

export interface TimelineStep {
  readonly key: string;
  readonly word: string;
  readonly level: StateWord["level"];
  readonly atMs: number;
  /** On hover. */
  readonly message?: string | undefined;
}

/** The last step is the current one; the others lasted until the next. */
export function Timeline({
  steps,
  label,
}: {
  readonly steps: readonly TimelineStep[];
  readonly label: string;
}) {
  const nowMs = useNow();
  return (
    <ol className="timeline" aria-label={label}>
      {steps.map(({ key, word, level, atMs, message }, index) => {
        const isLast = index === steps.length - 1;
        const untilMs = steps[index + 1]?.atMs ?? nowMs;
        const lasted = formatDuration(untilMs - atMs);
        const moment = Number.isNaN(atMs) ? "" : formatMoment(atMs);
        return (
          <li
            key={key}
            className={`timeline-step tone-${level}`}
            aria-current={isLast ? "step" : undefined}
            title={[moment, message].filter(Boolean).join("\n")}
          >
            <span className="timeline-dot" aria-hidden />
            <span className={isLast ? "strong" : undefined}>{word}</span>
            <span className="muted small number">{Number.isNaN(atMs) ? "" : lasted}</span>
          </li>
        );
      })}
    </ol>
  );
}
