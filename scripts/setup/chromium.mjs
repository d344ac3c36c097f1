/** Chromium for tests of the console: Debian's packages with their libraries and fonts, unpacked into the cache, not installed. */
import { chmodSync, existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cacheDir } from "./cache.mjs";
import { findOnPath, isExecutable } from "./command.mjs";
import { fillFolder } from "./fill-folder.mjs";
import { askApt, unpackPackages } from "./private-apt.mjs";
import { SetupError } from "./steps.mjs";

const PACKAGES = ["chromium", "fonts-inter", "fonts-dejavu-core"];

/** Packages whose files a headless Chromium opens. The others are programs and data of a desktop. */
const NEEDED = /^(chromium|chromium-common|fonts-.*|lib.*)$/;

/** libc belongs to the system's loader. The others are not linked by Chromium, and are large. */
const UNNEEDED =
  /^(libc6|libllvm.*|libz3.*|libgl1-mesa-dri|mesa-.*|libperl.*|libsystemd-shared|libgtk-.*|libicu.*|libdb5.*|libssl.*|libcryptsetup.*|libpam.*|.*-perl)$/;

/** Folders of usr/share that no test reads. */
const SHARED = ["doc", "locale", "man", "lintian"];

const CHROME_ON_MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome";

/**
 * Path of the program, or undefined. The packages in the cache win over a browser of the system, so that tests see what a new
 * machine has, with the same fonts.
 */
export function findChromium(env = process.env) {
  const named = env.METALBRIDGE_CHROMIUM;
  if (named) return named;
  const names = ["chromium", "google-chrome", "google-chrome-stable"];
  const candidates = [
    launcherIn(prefixIn(env)),
    ...names.map((name) => findOnPath(name, env)),
    CHROME_ON_MAC,
  ];
  return candidates.find((file) => file !== undefined && isExecutable(file));
}

/** Optional: says what is skipped without it, and never fails. */
export async function ensureChromium({ progress, env = process.env }) {
  try {
    if (!env.METALBRIDGE_CHROMIUM && !existsSync(launcherIn(prefixIn(env))) && hasApt(env))
      await progress.during("chromium", "fetching the system's package chromium into the cache", () =>
        fillFolder(prefixIn(env), unpackChromium),
      );
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    progress.note(error.message);
  }
  const found = findChromium(env);
  if (found === undefined)
    progress.note("no chromium: tests of the console are skipped; install Chromium or Google Chrome");
  else progress.cached("chromium", found);
}

async function unpackChromium(work) {
  const plan = await askApt(work, ["install", "--simulate", "-qq", "--no-install-recommends", ...PACKAGES]);
  const all = [...plan.matchAll(/^Inst (\S+) /gm)].map(([, name]) => name);
  const needed = all.filter((name) => NEEDED.test(name) && !UNNEEDED.test(name));
  // On Ubuntu the package chromium, where there is one, only installs a snap.
  if (!needed.includes("chromium-common")) throw new SetupError("this system has no package chromium");
  const { prefix } = await unpackPackages(work, needed, { timeoutMs: 600_000 });
  const layers = readdirSync(join(prefix, "usr/lib/chromium")).filter((name) =>
    name.startsWith("libVkLayer"),
  );
  const unused = [
    ...SHARED.map((name) => `usr/share/${name}`),
    ...layers.map((name) => `usr/lib/chromium/${name}`),
  ];
  for (const name of unused) rmSync(join(prefix, name), { recursive: true, force: true });
  writeFileSync(join(prefix, "fonts.conf"), FONTS);
  writeFileSync(launcherIn(prefix), launcher(libraryFolders(prefix)));
  chmodSync(launcherIn(prefix), 0o755);
  return prefix;
}

/** Relative to the prefix. Libraries stand in a folder of their architecture, and some of PulseAudio in one below it. */
function libraryFolders(prefix) {
  return ["usr/lib", "lib"].flatMap((parent) => {
    if (!existsSync(join(prefix, parent))) return [];
    return readdirSync(join(prefix, parent))
      .filter((name) => name.endsWith("-linux-gnu"))
      .flatMap((name) => [`${parent}/${name}`, `${parent}/${name}/pulseaudio`]);
  });
}

/** Finds its prefix by its own place, because the folder is published by a rename. */
function launcher(folders) {
  const path = folders.map((folder) => `$prefix/${folder}`).join(":");
  return `#!/bin/sh
prefix=$(dirname "$(readlink -f "$0")")
export LD_LIBRARY_PATH="${path}"
export FONTCONFIG_FILE="$prefix/fonts.conf" XDG_CACHE_HOME="$prefix/var/cache"
exec "$prefix/usr/lib/chromium/chromium" "$@"
`;
}

/** Only the unpacked fonts, so that screenshots look the same on every machine. */
const FONTS = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir prefix="relative">usr/share/fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
  <alias binding="same"><family>system-ui</family><prefer><family>Inter</family></prefer></alias>
  <alias><family>sans-serif</family><prefer><family>Inter</family><family>DejaVu Sans</family></prefer></alias>
  <alias><family>serif</family><prefer><family>DejaVu Serif</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
`;

function hasApt(env) {
  return ["apt-get", "dpkg"].every((program) => findOnPath(program, env) !== undefined);
}

function launcherIn(prefix) {
  return join(prefix, "chromium");
}

function prefixIn(env) {
  return join(cacheDir(env), "chromium", "prefix");
}
