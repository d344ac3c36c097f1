/** A state: a word with an icon, and a color that repeats it. */
import { CircleAlert, CircleCheck, CircleDashed, LoaderCircle, TriangleAlert } from "lucide-react";
import type { StateWord } from "../../../src/console/rows.ts";

const ICONS = {
  ok: CircleCheck,
  warn: TriangleAlert,
  bad: CircleAlert,
  idle: CircleDashed,
  busy: LoaderCircle,
} as const;

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
