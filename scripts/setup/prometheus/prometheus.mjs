/** A real Prometheus for the tests of alerts and dashboards: one that is named, one on PATH, the cache, or the package of a Debian system. */
import { join } from "node:path";
import { findOnPath, run } from "../command.mjs";
import { SetupError } from "../steps.mjs";
import { installFromDebian } from "./debian.mjs";
import { findPrometheus, hasBoth, PROGRAMS, prometheusDir } from "./find.mjs";

const HOW = [
  "install Prometheus so that prometheus and promtool are on PATH",
  "or name the folder that holds both in METALBRIDGE_PROMETHEUS",
  "or run setup again with access to a Debian mirror",
];

/** Returns the folder with both programs, or undefined after a message that says what is skipped and how to fix it; a wrong name is an error. */
export async function ensurePrometheus({ progress, env = process.env }) {
  const named = env.METALBRIDGE_PROMETHEUS;
  if (named && !hasBoth(named)) {
    const problem = `METALBRIDGE_PROMETHEUS names ${named}, which does not hold ${PROGRAMS.join(" and ")}`;
    throw new SetupError(problem, [
      "name a folder that holds both, or unset the variable",
      ...HOW.slice(0, 1),
    ]);
  }
  const found = findPrometheus(env) ?? (await install(progress, env));
  if (found === undefined) return undefined;
  const problem = await problemOf(found);
  if (problem !== undefined) {
    throw new SetupError(`Prometheus in ${found} does not answer --version: ${problem}`, [
      "remove that folder and run setup again",
      ...HOW,
    ]);
  }
  progress.cached("prometheus", found);
  return found;
}

async function install(progress, env) {
  const what = "fetching the system's package prometheus into the cache";
  if (["apt-get", "dpkg"].every((program) => findOnPath(program, env) !== undefined)) {
    try {
      return await progress.during("prometheus", what, () => installFromDebian(prometheusDir(env)));
    } catch (error) {
      if (!(error instanceof SetupError)) throw error;
      progress.note(error.message);
    }
  }
  progress.note(`no Prometheus: tests that load alerts and dashboards are skipped; ${HOW.join("; ")}`);
  return undefined;
}

/** Undefined where both answer. */
async function problemOf(folder) {
  for (const name of PROGRAMS) {
    const result = await run(join(folder, name), ["--version"], { timeoutMs: 20_000 });
    if (result.code !== 0) return `${name}: ${result.tail.slice(0, 200)}`;
  }
  return undefined;
}
