/** containerd, runc, CNI plugins and the pause program for a real node in tests: Debian's packages, unpacked into the cache. */
import { copyFileSync, existsSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { cacheDir } from "../cache.mjs";
import { findOnPath, isExecutable, run } from "../command.mjs";
import { fillFolder } from "../fill-folder.mjs";
import { BUILD_FLAGS, LINK_FLAGS, runGo } from "../go.mjs";
import { findDebianMirror, readAptSources } from "../llama/apt-sources.mjs";
import { debianOnly, KEYRING, unpackPackages } from "../private-apt.mjs";
import { SetupError } from "../steps.mjs";

const SUITE = "bookworm";
/** Upstream versions; Debian's archive keeps only the newest build of each. */
const PACKAGES = { containerd: "1.6.20", runc: "1.1.5", "containernetworking-plugins": "1.1.1" };
const PAUSE = fileURLToPath(new URL("pause/main.go", import.meta.url));

/** Program → where its package holds it. `pause` is built. */
const PROGRAMS = {
  containerd: "usr/bin/containerd",
  "containerd-shim-runc-v2": "usr/bin/containerd-shim-runc-v2",
  ctr: "usr/bin/ctr",
  runc: "usr/sbin/runc",
  ptp: "usr/lib/cni/ptp",
  "host-local": "usr/lib/cni/host-local",
  loopback: "usr/lib/cni/loopback",
};

/** The one folder that holds every program by its name; undefined where setup did not provide it. */
export function findNodeParts(env = process.env) {
  const folder = folderIn(env);
  return isComplete(folder) ? folder : undefined;
}

/** Returns the folder, or undefined after a message that says what is skipped. */
export async function ensureNodeParts({ progress, env = process.env }) {
  const found = findNodeParts(env) ?? (await provide(progress, env));
  if (found !== undefined) progress.cached("node parts", found);
  return found;
}

async function provide(progress, env) {
  const what = `fetching containerd, runc and CNI plugins (Debian, suite ${SUITE}) into the cache`;
  const problem = unavailableReason(env);
  if (problem === undefined) {
    try {
      return await progress.during("node parts", what, () => install(folderIn(env), env));
    } catch (error) {
      if (!(error instanceof SetupError)) throw error;
      progress.note(error.message);
    }
  }
  progress.note(
    `no parts of a real node${problem === undefined ? "" : ` (${problem})`}: tests with containers are skipped`,
  );
  return undefined;
}

function unavailableReason(env) {
  if (process.platform !== "linux") return "needs Linux";
  const missing = ["apt-get", "dpkg", "go"].filter((program) => findOnPath(program, env) === undefined);
  if (missing.length > 0) return `${missing.join(", ")} not on PATH`;
  if (!existsSync(KEYRING)) return `${KEYRING} is missing, so packages cannot be verified`;
  return findDebianMirror(readAptSources()) === undefined
    ? "no Debian mirror in this system's apt sources"
    : undefined;
}

function install(target, env) {
  return fillFolder(target, async (work) => {
    const settings = debianOnly(work, [`${findDebianMirror(readAptSources())} ${SUITE}`]);
    const { prefix, archives } = await unpackPackages(work, Object.keys(PACKAGES), { settings });
    expectVersions(archives);
    const complete = join(work, "complete");
    mkdirSync(complete);
    for (const [name, file] of Object.entries(PROGRAMS))
      copyFileSync(join(prefix, file), join(complete, name));
    await buildPause(join(complete, "pause"), env);
    await expectAnswers(complete);
    return complete;
  });
}

function expectVersions(archives) {
  for (const [name, version] of Object.entries(PACKAGES)) {
    if (archives.some((archive) => archive.startsWith(`${name}_${version}`))) continue;
    throw new SetupError(`${SUITE} no longer has ${name} ${version}: ${archives.join(", ")}`);
  }
}

async function buildPause(target, env) {
  const args = ["build", ...BUILD_FLAGS, `-ldflags=${LINK_FLAGS}`, "-o", target, PAUSE];
  const result = await runGo("go", args, { env, cwd: dirname(PAUSE) });
  if (result.code !== 0) throw new SetupError(`building pause failed:\n${result.tail}`);
}

/** runc needs the system's libseccomp. */
async function expectAnswers(folder) {
  for (const name of ["containerd", "runc"]) {
    const result = await run(join(folder, name), ["--version"], { timeoutMs: 20_000 });
    if (result.code !== 0) throw new SetupError(`${name} does not answer --version: ${result.tail}`);
  }
}

function isComplete(folder) {
  return [...Object.keys(PROGRAMS), "pause"].every((name) => isExecutable(join(folder, name)));
}

function folderIn(env) {
  const versions = Object.values(PACKAGES).join("-");
  return join(cacheDir(env), "node", `${versions}-${process.platform}-${process.arch}`);
}
