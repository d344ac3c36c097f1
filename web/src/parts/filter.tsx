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
