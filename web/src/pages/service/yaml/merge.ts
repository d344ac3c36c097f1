/** Combines an edit with a change that another person has stored since it began. Pure. */

type Fields = Readonly<Record<string, unknown>>;

export interface FieldChange {
  readonly field: string;
  readonly from: unknown;
  readonly to: unknown;
}

export interface MergedEdit {
  readonly value: Fields;
  /** Fields that both have changed; the edit's value is kept. */
  readonly clashes: readonly string[];
}

/** Fields that differ, by their path. Lists are compared as a whole. */
export function changedFields(from: unknown, to: unknown, path = ""): readonly FieldChange[] {
  if (isSame(from, to)) return [];
  if (!isFields(from) || !isFields(to)) return [{ field: path, from, to }];
  const names = [...new Set([...Object.keys(from), ...Object.keys(to)])].sort();
  return names.flatMap((name) => changedFields(from[name], to[name], path === "" ? name : `${path}.${name}`));
}

/** `stored` with the changes from `base` to `edited`. */
export function mergeEdit(base: Fields, edited: Fields, stored: Fields): MergedEdit {
  const clashes: string[] = [];
  const value = merge(base, edited, stored, "", clashes);
  return { value: isFields(value) ? value : edited, clashes };
}

function merge(base: unknown, edited: unknown, stored: unknown, path: string, clashes: string[]): unknown {
  if (isSame(base, edited)) return stored;
  if (isSame(base, stored) || isSame(edited, stored)) return edited;
  if (!isFields(edited) || !isFields(stored)) {
    clashes.push(path);
    return edited;
  }
  const from = isFields(base) ? base : {};
  const names = [...new Set([...Object.keys(stored), ...Object.keys(edited)])];
  const entries = names.map((name) => {
    const field = path === "" ? name : `${path}.${name}`;
    return [name, merge(from[name], edited[name], stored[name], field, clashes)] as const;
  });
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

function isSame(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (Array.isArray(a) && Array.isArray(b))
    return a.length === b.length && a.every((one, index) => isSame(one, b[index]));
  if (!isFields(a) || !isFields(b)) return false;
  const names = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...names].every((name) => isSame(a[name], b[name]));
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
