/** How something is, how far and since when: each is a word or a figure first. */
import { CircleAlert, CircleCheck, CircleDashed, LoaderCircle, TriangleAlert } from "lucide-react";
import type { StateWord } from "../../../src/console/rows.ts";
import { type Download, downloadText, secondsLeft, shareOf } from "../../../src/verdicts/download.ts";
import type { FitLevel, ModelFit } from "../api/density.ts";
import { useNow } from "../live/hooks.ts";
import { formatDuration, formatRate } from "./format.ts";

const ICONS = {
  ok: CircleCheck,
  warn: TriangleAlert,
  bad: CircleAlert,
  idle: CircleDashed,
  busy: LoaderCircle,
} as const;

/** A state: a word with an icon, and a color that repeats it. */
export function State({
  state: { word, level },
  title,
}: {
  readonly state: StateWord;
  readonly title?: string;
}) {
  const Icon = ICONS[level];
  return (
    <span className={`state tone-${level}`} title={title}>
      <Icon size={14} aria-hidden />
      <span>{word}</span>
    </span>
  );
}

export function countReady(rows: readonly { readonly state: StateWord }[]): number {
  return rows.filter(({ state }) => state.level === "ok").length;
}

/** A small label such as Cordoned. */
export function Tag({
  children,
  level = "idle",
  title,
}: {
  readonly children: string;
  readonly level?: StateWord["level"];
  readonly title?: string;
}) {
  return (
    <span className={`tag tone-${level}`} title={title}>
      {children}
    </span>
  );
}

/** How well a model fits a machine: a word, and a color that repeats it; a score as a bar. */
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

/** How much of something is there, as a bar. Without a total the bar is empty. */
export function Progress({
  label,
  part,
}: {
  readonly label: string;
  /** 0 to 1. */
  readonly part: number | undefined;
}) {
  const percent = part === undefined ? undefined : Math.round(Math.min(1, Math.max(0, part)) * 100);
  return (
    <span
      className="progress"
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={percent}
    >
      <span style={{ width: `${percent ?? 0}%` }} />
    </span>
  );
}

const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
/** Clocks of machines differ a little. */
const JUST_NOW_MS = 2_000;

/** A moment, relative to the server's clock; the absolute time in the reader's zone on hover. */
export function Ago({ at, suffix = " ago" }: { readonly at: string | undefined; readonly suffix?: string }) {
  const nowMs = useNow();
  const atMs = at === undefined ? Number.NaN : Date.parse(at);
  if (Number.isNaN(atMs)) return <span className="muted">never</span>;
  const ageMs = nowMs - atMs;
  return (
    <time dateTime={at} title={absolute.format(atMs)} className="number">
      {ageMs < JUST_NOW_MS ? "now" : `${formatDuration(ageMs)}${suffix}`}
    </time>
  );
}

export function formatMoment(atMs: number): string {
  return absolute.format(atMs);
}

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

/** Without a total there is no bar. */
export function DownloadFigures({
  label,
  download,
}: {
  readonly label: string;
  readonly download: Download;
}) {
  const [part, seconds] = [shareOf(download), secondsLeft(download)];
  const left = seconds === undefined ? "" : `, ${formatDuration(seconds * 1_000)} left`;
  return (
    <>
      {part !== undefined && <Progress label={label} part={part} />}
      <span className="muted small number">{`${downloadText(download)}${left}`}</span>
    </>
  );
}
