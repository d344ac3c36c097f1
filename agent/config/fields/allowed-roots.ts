/** Checks paths against the folders that a configuration allows. */
import { realpath } from "node:fs/promises";
import { resolve, sep } from "node:path";

/** The path with links resolved, if both the path and its target are inside the roots. For a path inside, throws like realpath. */
export async function resolveInside(path: string, roots: readonly string[]): Promise<string | "outside"> {
  const realRoots = await Promise.all(roots.map((root) => realpath(root).catch(() => resolve(root))));
  const isInside = (candidate: string, root: string): boolean =>
    candidate === root || candidate.startsWith(root.endsWith(sep) ? root : root + sep);
  // The name is checked first, so that no request can probe which files exist outside.
  const lexical = resolve(path);
  const allowed = [...roots.map((root) => resolve(root)), ...realRoots];
  if (!allowed.some((root) => isInside(lexical, root))) return "outside";
  const real = await realpath(path);
  return realRoots.some((root) => isInside(real, root)) ? real : "outside";
}
