/** Filters of a list, which the address names: by words, and by the kind of the states. */
import { type ReactNode, useMemo } from "react";
import type { StateWord } from "../../../../src/console/rows.ts";
import { useSearchParam } from "../../address/search.ts";

/** The field that filters a list by words. */
export function Filter({
  label,
  words,
  onChange,
}: {
  /** What the words are compared with, such as "Filter by name". */
  readonly label: string;
  readonly words: string;
  readonly onChange: (words: string) => void;
}) {
  return (
    <input
      className="filter"
      type="search"
      aria-label={label}
      placeholder={label}
      value={words}
      onChange={({ target }) => onChange(target.value)}
    />
  );
}

/** Nothing while all are shown: the title says how many. */
export function countOf(shown: number, all: number): string {
  return shown === all ? "" : `${shown} of ${all}`;
}

type Level = StateWord["level"];

interface Stated {
  readonly state: StateWord;
}

const LEVELS = ["ok", "busy", "warn", "bad", "idle"] as const satisfies readonly Level[];

/** The levels that the address names; none means all. */
export function useLevels(): readonly [string[], (levels: readonly string[]) => void] {
  const [chosen, setChosen] = useSearchParam("state");
  const levels = useMemo(() => (chosen === "" ? [] : chosen.split(",")), [chosen]);
  return [levels, (next) => setChosen(next.join(","))];
}

/** Every row passes an empty choice. */
export function isOfLevel(levels: readonly string[]) {
  return ({ state }: Stated): boolean => levels.length === 0 || levels.includes(state.level);
}

export function LevelChips({
  label,
  rows,
  words,
}: {
  readonly label: string;
  readonly rows: readonly Stated[];
  readonly words: Readonly<Record<Level, string>>;
}) {
  const [chosen, setChosen] = useLevels();
  const counts = new Map<Level, number>();
  for (const { state } of rows) counts.set(state.level, (counts.get(state.level) ?? 0) + 1);
  const shown = LEVELS.filter((level) => counts.has(level) || chosen.includes(level));
  if (shown.length < 2 && chosen.length === 0) return null;
  return (
    <Chips
      label={label}
      chips={shown.map((level) => ({ id: level, label: words[level], count: counts.get(level) ?? 0 }))}
      chosen={chosen}
      onChange={setChosen}
    />
  );
}

interface Chip {
  readonly id: string;
  readonly label: string;
  readonly count?: number;
  readonly icon?: ReactNode;
}

/** Filters that can be on together, each with a count. The choice is in the URL, by the caller. */
function Chips({
  label,
  chips,
  chosen,
  onChange,
}: {
  readonly label: string;
  readonly chips: readonly Chip[];
  readonly chosen: readonly string[];
  readonly onChange: (chosen: readonly string[]) => void;
}) {
  const toggle = (id: string): void =>
    onChange(chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id]);
  return (
    <fieldset className="chips" aria-label={label}>
      {chips.map(({ id, label: name, count, icon }) => (
        <button
          key={id}
          type="button"
          className="chip"
          aria-pressed={chosen.includes(id)}
          onClick={() => toggle(id)}
        >
          {icon}
          {name}
          {count !== undefined && <span className="number muted">{count}</span>}
        </button>
      ))}
    </fieldset>
  );
}

/** Search by words: each must occur, in any order. */
export function hasWords(texts: readonly string[], words: string): boolean {
  const text = texts.join(" ").toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
