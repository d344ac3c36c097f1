/** A real Ollama for the tests of its driver: one that is named, one on PATH, the cache, or a build where Go and a C compiler are. */
import { mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { cacheDir } from "./cache.mjs";
import { findOnPath, isExecutable, run } from "./command.mjs";
import { SetupError } from "./steps.mjs";

/** The newest that `go install` builds: later modules lack headers. Such a build calls itself 0.0.0. */
const VERSION = "v0.9.6";

const HOW = [
  "install Ollama so that ollama is on PATH (brew install ollama)",
  "or name the program in METALBRIDGE_OLLAMA",
  "or install Go and a C compiler, and run setup again with access to a Go module proxy",
];

/** Setup and the tests look in the same places; undefined where it is in none. */
export function findOllama(env = process.env) {
  const onPath = findOnPath("ollama", env);
  const places = [env.METALBRIDGE_OLLAMA, onPath, join(folderIn(env), "ollama")];
  return places.find((place) => place !== undefined && place !== "" && isExecutable(place));
}

/** Returns its path, or undefined after a message that says what is skipped and how to fix it; a wrong name is an error. */
export async function ensureOllama({ progress, env = process.env }) {
  const named = env.METALBRIDGE_OLLAMA;
  if (named && !isExecutable(named))
    throw new SetupError(`METALBRIDGE_OLLAMA names ${named}, which is no executable file`, HOW);
  const found = findOllama(env) ?? (await build(progress, env));
  if (found !== undefined) progress.cached("ollama", found);
  return found;
}

async function build(progress, env) {
  const go = findOnPath("go", env);
  const compiler = findOnPath("cc", env) ?? findOnPath("gcc", env);
  if (go !== undefined && compiler !== undefined) {
    const what = "building, about two minutes the first time";
    try {
      return await progress.during("ollama", what, () => install(go, folderIn(env), env));
    } catch (error) {
      if (!(error instanceof SetupError)) throw error;
      progress.note(error.message);
    }
  }
  progress.note(`no Ollama: tests that run it are skipped; ${HOW.join("; ")}`);
  return undefined;
}

/** Into a folder of its own and then by one rename, so that an interrupted build leaves nothing half. */
async function install(go, target, env) {
  mkdirSync(dirname(target), { recursive: true });
  const temporary = mkdtempSync(join(dirname(target), ".build-"));
  try {
    const settings = { ...env, GOBIN: temporary, GOFLAGS: "", CGO_ENABLED: "1" };
    const result = await run(go, ["install", `github.com/ollama/ollama@${VERSION}`], { env: settings });
    if (result.code !== 0) throw new SetupError(`building Ollama with ${go} failed:\n${result.tail}`);
    rmSync(target, { recursive: true, force: true });
    renameSync(temporary, target);
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
  return join(target, "ollama");
}

function folderIn(env) {
  return join(cacheDir(env), "ollama", `${VERSION}-${process.platform}-${process.arch}`);
}
