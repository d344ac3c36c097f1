/** A program that only tests need: one that is named, one on PATH, the cache, or a build of its Go module. */
import { renameSync } from "node:fs";
import { basename, join } from "node:path";
import { cacheDir } from "./cache.mjs";
import { findOnPath, isExecutable } from "./command.mjs";
import { fillFolder } from "./fill-folder.mjs";
import { BUILD_FLAGS, LINK_FLAGS, runGo } from "./go.mjs";
import { SetupError } from "./steps.mjs";

/**
 * `folder`: the program's folder in its module, if it is built there instead of by `go install`, which needs the list of the
 * module's versions; `program`: its name on PATH; `variable`: the one that names it; `module`, `version`: what `go install` builds; `brew`: its
 * formula, empty if there is none; `cgo`: it needs a C compiler; `linkFlags`: more of the linker; `firstBuild`: how long a first
 * build takes on two cores. Returns `{ find, ensure }`.
 */
export function goProgram({
  program,
  variable,
  module,
  folder = "",
  version,
  brew = program,
  cgo = false,
  linkFlags = [],
  firstBuild = "two minutes",
}) {
  const how = [
    `install ${program} so that it is on PATH${brew === "" ? "" : ` (brew install ${brew})`}`,
    `or name the program in ${variable}`,
    `or install Go${cgo ? " and a C compiler" : ""}, and run setup again with access to a Go module proxy`,
  ];
  const folderIn = (env) => join(cacheDir(env), program, `${version}-${process.platform}-${process.arch}`);

  /** Setup and the tests look in the same places; undefined where it is in none. */
  const find = (env = process.env) => {
    const places = [env[variable], findOnPath(program, env), join(folderIn(env), program)];
    return places.find((place) => place !== undefined && place !== "" && isExecutable(place));
  };

  const build = async (progress, env) => {
    const go = findOnPath("go", env);
    const canBuild = !cgo || ["cc", "gcc"].some((compiler) => findOnPath(compiler, env) !== undefined);
    if (go !== undefined && canBuild) {
      const flags = [...BUILD_FLAGS, `-ldflags=${[LINK_FLAGS, ...linkFlags].join(" ")}`];
      const recipe = { program, flags, env, cgo, target: folderIn(env) };
      const what = `building, about ${firstBuild} the first time`;
      try {
        await progress.during(program, what, () =>
          folder === ""
            ? install(go, `${module}@${version}`, { ...recipe, built: basename(module) })
            : buildInModule(go, `${module}@${version}`, { ...recipe, folder }),
        );
        return join(folderIn(env), program);
      } catch (error) {
        if (!(error instanceof SetupError)) throw error;
        progress.note(error.message);
      }
    }
    progress.note(`no ${program}: tests that run it are skipped; ${how.join("; ")}`);
    return undefined;
  };

  /** Returns its path, or undefined after a message that says what is skipped and how to fix it; a wrong name is an error. */
  const ensure = async ({ progress, env = process.env }) => {
    const named = env[variable];
    if (named && !isExecutable(named))
      throw new SetupError(`${variable} names ${named}, which is no executable file`, how);
    const found = find(env) ?? (await build(progress, env));
    if (found !== undefined) progress.cached(program, found);
    return found;
  };
  return { find, ensure };
}

/** `go install` names a program after its package. */
function install(go, module, { target, flags, built, program, env, cgo }) {
  return fillFolder(target, async (work) => {
    const args = ["install", ...flags, module];
    const result = await runGo(go, args, { env: { ...env, GOBIN: work }, cgo });
    if (result.code !== 0) throw new SetupError(`${go} ${args.join(" ")} failed:\n${result.tail}`);
    if (built !== program) renameSync(join(work, built), join(work, program));
    return work;
  });
}

/** The module's own requirements and checksums apply. */
function buildInModule(go, module, { target, folder, flags, program, env, cgo }) {
  return fillFolder(target, async (work) => {
    const found = await runGo(go, ["mod", "download", "-json", module], { env, cwd: work });
    if (found.code !== 0) throw new SetupError(`${go} mod download ${module} failed:\n${found.tail}`);
    const args = ["build", ...flags, "-o", join(work, program), `./${folder}`];
    const result = await runGo(go, args, { env, cgo, cwd: JSON.parse(found.stdout).Dir });
    if (result.code !== 0) throw new SetupError(`${go} ${args.join(" ")} failed:\n${result.tail}`);
    return work;
  });
}
