/** Filters of a list, which the address names: by words, and by the kind of the states. */
import { type ReactNode, useMemo } from "react";
import type { StateWord } from "../../../../src/console/rows.ts";
import { useSearchParam } from "../../address/search.ts";

type Level = StateWord["level"];

interface Stated {
  readonly state: StateWord;
}

export interface ListFilter<R> {
  /** What the words are compared with, such as "Filter by name". */
  readonly label?: string;
  readonly textsOf: (row: R) => readonly string[];
  /** Words of the kinds of states. Absent for rows without a state. */
  readonly levels?: Readonly<Record<Level, string>>;
}

/** The rows that the address asks for, and the fields that change it. `also` is what else the page filters by. */
export function useFilter<R>(
  rows: readonly R[],
  filter: ListFilter<R> | undefined,
  also?: (row: R) => boolean,
): { readonly found: readonly R[]; readonly bar: ReactNode } {
  const [words, setWords] = useSearchParam("q");
  const [levels] = useLevels();
  const found = useMemo(() => {
    const others = also === undefined ? rows : rows.filter(also);
    return filter === undefined ? others : others.filter((row) => isFound(row, filter, words, levels));
  }, [rows, filter, words, levels, also]);
  const { label = "Filter", levels: levelWords } = filter ?? {};
  const bar = filter !== undefined && (
    <>
      <input
        className="filter"
        type="search"
        aria-label={label}
        placeholder={label}
        value={words}
        onChange={({ target }) => setWords(target.value)}
      />
      {levelWords !== undefined && <LevelChips rows={rows as readonly Stated[]} words={levelWords} />}
      {/* Nothing while all are shown: the title says how many. */}
      <span className="muted small number">
        {found.length === rows.length ? "" : `${found.length} of ${rows.length}`}
      </span>
    </>
  );
  return { found, bar };
}

/** Pure. Every word must occur; no level means all. */
export function isFound<R>(
  row: R,
  { textsOf, levels: levelWords }: ListFilter<R>,
  words: string,
  levels: readonly string[],
): boolean {
  return (levelWords === undefined || isOfLevel(levels)(row as Stated)) && hasWords(textsOf(row), words);
}

/** Search by words: each must occur, in any order. */
export function hasWords(texts: readonly string[], words: string): boolean {
  const text = texts.join(" ").toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
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

/** Filters by the kind of the states, each with its count; several can be on. */
export function LevelChips({
  rows,
  words,
}: {
  readonly rows: readonly Stated[];
  readonly words: Readonly<Record<Level, string>>;
}) {
  const [chosen, setChosen] = useLevels();
  const counts = new Map<Level, number>();
  for (const { state } of rows) counts.set(state.level, (counts.get(state.level) ?? 0) + 1);
  const shown = LEVELS.filter((level) => counts.has(level) || chosen.includes(level));
  if (shown.length < 2 && chosen.length === 0) return null;
  const toggle = (level: Level): void =>
    setChosen(chosen.includes(level) ? chosen.filter((one) => one !== level) : [...chosen, level]);
  return (
    <fieldset className="chips" aria-label="State">
      {shown.map((level) => (
        <button
          key={level}
          type="button"
          className="chip"
          aria-pressed={chosen.includes(level)}
          onClick={() => toggle(level)}
        >
          {words[level]}
          <span className="number muted">{counts.get(level) ?? 0}</span>
        </button>
      ))}
    </fieldset>
  );
}
