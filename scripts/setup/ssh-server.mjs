/** OpenSSH's server for tests of what administrators do over ssh: from Debian's packages, unpacked into the cache, not installed. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { cacheDir } from "./cache.mjs";
import { findOnPath } from "./command.mjs";
import { fillFolder } from "./fill-folder.mjs";
import { unpackPackages } from "./private-apt.mjs";
import { SetupError } from "./steps.mjs";

const PACKAGES = ["openssh-server", "libwrap0"];

/** The system's own sshd, as `{ program }`; else the packages in the cache, as `{ prefix }`; else undefined. */
export function findSshServer(env = process.env) {
  const program = findOnPath("sshd", { PATH: `${env.PATH ?? ""}:/usr/sbin` });
  if (program !== undefined) return { program };
  const prefix = prefixIn(env);
  return existsSync(prefix) ? { prefix } : undefined;
}

/** Optional: says what is skipped without it, and never fails. */
export async function ensureSshServer({ progress, env = process.env }) {
  if (process.platform !== "linux") return;
  try {
    if (findSshServer(env) === undefined)
      await progress.during("ssh server", PACKAGES.join(" "), () =>
        fillFolder(prefixIn(env), async (work) => (await unpackPackages(work, PACKAGES)).prefix),
      );
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    progress.note(`no sshd: tests that log in by ssh are skipped; install openssh-server (${error.message})`);
    return;
  }
  const { program, prefix } = findSshServer(env) ?? {};
  progress.cached("ssh server", program ?? prefix);
}

function prefixIn(env) {
  return join(cacheDir(env), "ssh-server", "prefix");
}
