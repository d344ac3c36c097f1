/** Files that a configuration allows by folder. */
import { realpath } from "node:fs/promises";
import { resolve, sep } from "node:path";

/** The path without links if both it and what it leads to are in one of the roots. Throws as realpath does for a path inside. */
export async function resolveInside(path: string, roots: readonly string[]): Promise<string | "outside"> {
  const realRoots = await Promise.all(roots.map((root) => realpath(root).catch(() => resolve(root))));
  const isInside = (candidate: string, root: string): boolean =>
    candidate === root || candidate.startsWith(root.endsWith(sep) ? root : root + sep);
  // By name first, so that no request can probe which files exist outside.
  const lexical = resolve(path);
  const allowed = [...roots.map((root) => resolve(root)), ...realRoots];
  if (!allowed.some((root) => isInside(lexical, root))) return "outside";
  const real = await realpath(path);
  return realRoots.some((root) => isInside(real, root)) ? real : "outside";
}
