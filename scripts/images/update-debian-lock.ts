/** `npm run update-debian-lock`: the newest versions of the image's packages, with apt's check of Debian's signatures. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { askApt, debianOnly } from "../setup/private-apt.mjs";
import {
  DEBIAN_ARCHITECTURES,
  type DebianArchitecture,
  type DebianLock,
  debianMirror,
  LOCK_FILE,
  type LockedPackage,
  PACKAGES,
  SUITE,
} from "./debian-lock.ts";

const mirror = debianMirror();
const archives = [
  ["debian", SUITE],
  ["debian", `${SUITE}-updates`],
  ["debian-security", `${SUITE}-security`],
].map(([archive, suite]) => `${mirror}/${archive} ${suite}`);

const packages: Partial<Record<DebianArchitecture, readonly LockedPackage[]>> = {};
for (const architecture of DEBIAN_ARCHITECTURES) packages[architecture] = await resolve(architecture);
const snapshot = `${new Date().toISOString().slice(0, 19).replaceAll(/[-:]/g, "")}Z`;
const lock: DebianLock = { suite: SUITE, snapshot, packages: { amd64: [], arm64: [], ...packages } };
writeFileSync(LOCK_FILE, `${JSON.stringify(lock, undefined, 2)}\n`);
console.log(`${LOCK_FILE}: ${lock.packages.amd64.length} packages for each architecture`);

async function resolve(architecture: DebianArchitecture): Promise<readonly LockedPackage[]> {
  const work = mkdtempSync(path.join(tmpdir(), "mb-apt-"));
  try {
    const settings = debianOnly(work, archives, architecture);
    const said: string = await askApt(work, ["download", "--print-uris", "-qq", ...PACKAGES], settings);
    const locked = said
      .trim()
      .split("\n")
      .map((line) => parseLine(line));
    return locked.sort((one, other) => (one.path < other.path ? -1 : 1));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** `'http://HOST/debian/pool/…/libc6_2.41-12_amd64.deb' libc6_2.41-12_amd64.deb 2850108 SHA256:…` */
function parseLine(line: string): LockedPackage {
  const [, address = "", sha256 = ""] = /^'([^']+)' \S+ \d+ SHA256:([0-9a-f]{64})$/.exec(line) ?? [];
  const [, archive, file] = /^([^/]+)\/(.+)$/.exec(address.slice(mirror.length + 1)) ?? [];
  if (archive === undefined || file === undefined) throw new Error(`apt-get said: ${line}`);
  return { archive, path: file, sha256 };
}
