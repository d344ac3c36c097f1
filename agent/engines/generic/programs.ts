/** The programs that services may run on this host. */
import { glob, realpath, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { ProgramSpec } from "../../../src/api/fields/program.ts";
import { KNOWN_PROGRAMS } from "../../../src/engines/generic/known-programs.ts";
import { resolveInside } from "../../store/in-place.ts";
import type { InstalledProgram } from "../driver/engine.ts";
import { isExecutable } from "../driver/program.ts";

/** The known programs in the roots; the first root that has one wins. */
export async function findKnownPrograms(roots: readonly string[]): Promise<readonly InstalledProgram[]> {
  const found: InstalledProgram[] = [];
  for (const { name, distribution } of KNOWN_PROGRAMS) {
    const path = await locateInRoots(name, roots);
    if (path === undefined) continue;
    const version = distribution === undefined ? undefined : await distributionVersion(path, distribution);
    found.push({ name, path, version });
  }
  return found;
}

/** Finds a program by its file name. A root is a folder of programs, or one program. */
export async function locateInRoots(name: string, roots: readonly string[]): Promise<string | undefined> {
  for (const root of roots) {
    const path = basename(root) === name ? root : join(root, name);
    const isUsable = await checkProgram(path, roots).then(
      () => true,
      () => false,
    );
    if (isUsable) return path;
  }
  return undefined;
}

/** The version of a script in the `bin` of a Python environment, from the folder of metadata that pip wrote for the distribution. */
async function distributionVersion(path: string, distribution: string): Promise<string | undefined> {
  const cwd = dirname(dirname(await realpath(path)));
  const pattern = `lib/python*/site-packages/${distribution}-*.dist-info`;
  for await (const folder of glob(pattern, { cwd }))
    return basename(folder, ".dist-info").slice(distribution.length + 1);
  return undefined;
}

/** Throws `CommandInvalid` for variables that this host does not name. The controller has checked those of a BackendRuntime. */
export function checkVariables(
  { env, backend }: Pick<ProgramSpec, "env" | "backend">,
  allowed: readonly string[],
): void {
  if (backend !== undefined) return;
  const names = [...allowed, ...KNOWN_PROGRAMS.flatMap((known) => known.env.map(({ name }) => name))];
  const others = env.map(({ name }) => name).filter((name) => !names.includes(name));
  if (others.length === 0) return;
  throw new MetalbridgeError(
    "CommandInvalid",
    `spec.env sets ${others.join(", ")}, which generic.env in the agent's configuration does not name`,
    { summary: "remove it from spec.env, or add its name to generic.env and restart the agent" },
  );
}

/** Throws MetalbridgeError unless `path` is an executable file in one of the roots, links resolved. */
export async function checkProgram(path: string, roots: readonly string[]): Promise<void> {
  const real = await resolveInside(path, roots).catch(() => undefined);
  const file = real === undefined || real === "outside" ? undefined : await stat(real).catch(() => undefined);
  if (real === "outside") {
    const allowed = roots.length === 0 ? "it allows none" : `it allows ${roots.join(", ")}`;
    throw new MetalbridgeError(
      "ProgramNotAllowed",
      `this host does not run ${path}: add the program or its folder, and the targets of its links, to generic.roots in the agent's configuration (${allowed})`,
    );
  }
  if (real === undefined || file === undefined) {
    const remedy = { summary: "install it there, or correct its path" };
    throw new MetalbridgeError("RuntimeNotInstalled", `${path} does not exist on this host`, remedy);
  }
  if (file.isFile() && (await isExecutable(real))) return;
  throw new MetalbridgeError("RuntimeNotExecutable", `${path} is not an executable file`);
}
