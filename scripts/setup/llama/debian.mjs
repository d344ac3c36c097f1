/**
 * llama-server from Debian's own packages, without touching the system: a private apt state, packages unpacked into the
 * cache, and a wrapper that runs the program with the loader and libraries it was built for.
 */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { findOnPath, quoted } from "../command.mjs";
import { debianOnly, KEYRING, STALE_LISTS, unpackPackages } from "../private-apt.mjs";
import { SetupError } from "../steps.mjs";
import { findDebianMirror, readAptSources } from "./apt-sources.mjs";
import { chooseCpuBackend } from "./cpu-backend.mjs";

const SUITE = "forky";
const PACKAGES = [
  "llama.cpp-tools",
  "libllama0",
  "libggml0",
  "libc6",
  "libgcc-s1",
  "libstdc++6",
  "libssl3t64",
  "libgomp1",
];

/** Debian's architecture, the folder of its libraries, and the loader in it. */
const NAMES = {
  x64: { debian: "amd64", libraries: "x86_64-linux-gnu", loader: "ld-linux-x86-64.so.2" },
  arm64: { debian: "arm64", libraries: "aarch64-linux-gnu", loader: "ld-linux-aarch64.so.1" },
};

/** Returns the path of the wrapper in `<cache>/<version>/bin`. */
export async function installFromDebian(cache) {
  mkdirSync(cache, { recursive: true });
  const work = mkdtempSync(join(cache, ".apt-"));
  try {
    const { names, prefix, version } = await unpackFromDebian(work, PACKAGES);
    return publish(prefix, join(cache, `debian-${version}`), names);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
installFromDebian.label = `fetching Debian's packages (suite ${SUITE}) into the cache`;

/** Unpacks packages of llama.cpp into `work`; returns their folder, the version of llama.cpp, and the names of the architecture. */
export async function unpackFromDebian(work, packages) {
  const names = NAMES[process.arch];
  const mirror = findDebianMirror(readAptSources());
  if (names === undefined) throw new SetupError(`Debian's llama.cpp is not used on ${process.arch}`);
  if (mirror === undefined) throw new SetupError("no Debian mirror in this system's apt sources");
  if (!existsSync(KEYRING)) throw new SetupError(`${KEYRING} is missing, so packages cannot be verified`);
  for (const program of ["apt-get", "dpkg"]) {
    if (findOnPath(program) === undefined) throw new SetupError(`${program} is not on PATH`);
  }
  const settings = { ...debianOnly(work, [`${mirror} ${SUITE}`], names.debian), ...STALE_LISTS };
  const { prefix, archives } = await unpackPackages(work, packages, { settings, timeoutMs: 300_000 });
  return { names, prefix, version: versionOf(archives) };
}

/** Writes the wrapper first and then renames the folder once, so that a folder at `target` is always complete. */
function publish(prefix, target, names) {
  const within = (...parts) => join(target, ...parts);
  const libraries = join("usr", "lib", names.libraries);
  const backends = join(libraries, "ggml", "backends0");
  const cpuinfo = existsSync("/proc/cpuinfo") ? readFileSync("/proc/cpuinfo", "utf8") : "";
  const backend = chooseCpuBackend(readdirSync(join(prefix, backends)), cpuinfo);
  if (backend === undefined) throw new SetupError("Debian's libggml0 holds no backend for this processor");
  const searched = ["", "llama", "ggml"].map((folder) => within(libraries, folder)).join(":");
  const wrapper = [
    "#!/bin/sh",
    "# Made by setup. `exec`, so that the process started here is the engine itself.",
    `GGML_BACKEND_PATH=${quoted(within(backends, backend))}`,
    "export GGML_BACKEND_PATH",
    `exec ${quoted(within(libraries, names.loader))} --library-path ${quoted(searched)} --argv0 llama-server ${quoted(within("usr", "bin", "llama-server"))} "$@"`,
    "",
  ];
  mkdirSync(join(prefix, "bin"), { recursive: true });
  writeFileSync(join(prefix, "bin", "llama-server"), wrapper.join("\n"), { mode: 0o755 });
  if (!existsSync(within("bin", "llama-server"))) {
    rmSync(target, { recursive: true, force: true });
    renameSync(prefix, target);
  }
  wrapBench(within("bin", "llama-server"));
  return within("bin", "llama-server");
}

/** Writes the wrapper of llama-bench beside that of llama-server, also for packages that an earlier setup unpacked. */
export function wrapBench(server) {
  const wrapper = join(dirname(server), "llama-bench");
  const unpacked = join(dirname(dirname(server)), "usr", "bin", "llama-bench");
  if (existsSync(wrapper) || !existsSync(unpacked)) return;
  const temporary = `${wrapper}.${process.pid}`;
  writeFileSync(temporary, wrapperFor(server, unpacked), { mode: 0o755 });
  renameSync(temporary, wrapper);
}

/** The text of the wrapper of llama-server, for another program of its packages. */
export function wrapperFor(server, program) {
  const line = /--argv0 llama-server '.*' "\$@"/;
  return readFileSync(server, "utf8").replace(line, `--argv0 ${basename(program)} ${quoted(program)} "$@"`);
}

/** `llama.cpp-tools_1%3a0.7.0+dfsg-2_amd64.deb` → `0.7.0+dfsg-2` */
function versionOf(packages) {
  const [, version = "unknown"] =
    packages.find((name) => name.startsWith("llama.cpp-tools"))?.split("_") ?? [];
  return version.replace(/^\d+%3a/, "");
}
