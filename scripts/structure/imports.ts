/** The imports of the repository's files, as text: enough for code that has no computed import paths. */
import path from "node:path";

export interface Import {
  readonly from: string;
  /** A file of the repository, or the name of a package. */
  readonly to: string;
  readonly isPackage: boolean;
  /** Only types are taken: nothing of the other file runs because of this import. */
  readonly isTypeOnly: boolean;
}

const STATEMENT = /^(?:import|export)\s+(type\s+)?(?:([^"';]*?)\s+from\s+)?"([^"]+)"/gm;
const DYNAMIC = /\bimport\(\s*"([^"]+)"\s*\)/g;

/** `file` is relative to the repository's root, with slashes. */
export function importsOf(file: string, text: string): Import[] {
  const found: Import[] = [];
  const add = (specifier: string, isTypeOnly: boolean) => {
    const isPackage = !specifier.startsWith(".");
    const to = isPackage ? specifier : path.posix.join(path.posix.dirname(file), specifier);
    found.push({ from: file, to, isPackage, isTypeOnly });
  };
  for (const [, type, names, specifier] of text.matchAll(STATEMENT))
    if (specifier !== undefined) add(specifier, type !== undefined || takesTypesOnly(names));
  for (const [, specifier] of text.matchAll(DYNAMIC)) if (specifier !== undefined) add(specifier, false);
  return found;
}

function takesTypesOnly(names: string | undefined): boolean {
  const inner = names?.match(/^\{([^}]*)\}$/)?.[1];
  if (inner === undefined) return false;
  const each = inner
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
  return each.length > 0 && each.every((name) => name.startsWith("type "));
}
