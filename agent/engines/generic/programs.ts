/** Which programs of this host services may run. */
import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { resolveInside } from "../../roots.ts";

/** Throws MetalbridgeError unless `path` is an executable file in one of the roots, links resolved. */
export async function checkProgram(path: string, roots: readonly string[]): Promise<void> {
  const real = await resolveInside(path, roots).catch(() => undefined);
  if (real === "outside") {
    const allowed = roots.length === 0 ? "it allows none" : `it allows ${roots.join(", ")}`;
    throw new MetalbridgeError(
      "ProgramNotAllowed",
      `this host does not run ${path}: generic.roots in its configuration must hold it or its folder, and what it links to (${allowed})`,
    );
  }
  const file = real === undefined ? undefined : await stat(real).catch(() => undefined);
  if (real === undefined || file === undefined) {
    const remedy = { summary: "install it there, or correct spec.command" };
    throw new MetalbridgeError("RuntimeNotInstalled", `${path} does not exist on this host`, remedy);
  }
  const isExecutable = await access(real, constants.X_OK).then(
    () => true,
    () => false,
  );
  if (file.isFile() && isExecutable) return;
  throw new MetalbridgeError("RuntimeNotExecutable", `${path} is not an executable file`);
}
