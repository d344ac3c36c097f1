/** The quick way to etcd, kube-apiserver and kubectl for machines with internet access: envtest's release archives. */
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { run } from "../command.mjs";
import { download, fetchText } from "../download.mjs";
import { SetupError } from "../steps.mjs";

const DEFAULT_INDEX =
  "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml";

/** What the index says about one archive. `line` is the Kubernetes minor we are built for, such as "1.36". */
export function pickRelease(index, { line, platform, arch }) {
  const os = `${platform}-${arch === "x64" ? "amd64" : arch}`;
  const entry = new RegExp(
    `envtest-v(\\d+)\\.(\\d+)\\.(\\d+)-${os}\\.tar\\.gz:\\s+hash: ([0-9a-f]{128})\\s+selfLink: (\\S+)`,
    "g",
  );
  const [requestedMajor, requestedMinor] = line.split(".").map(Number);
  const releases = [...index.matchAll(entry)].map(([, major, minor, patch, hash, url]) => ({
    order: Number(major) * 1e6 + Number(minor) * 1e3 + Number(patch),
    hash,
    url,
  }));
  const newest = requestedMajor * 1e6 + requestedMinor * 1e3 + 999;
  const oldest = requestedMajor * 1e6 + (requestedMinor - 4) * 1e3;
  return releases
    .filter(({ order }) => order <= newest && order >= oldest)
    .sort((one, other) => other.order - one.order)[0];
}

/** Puts the three programs into `target`, each by rename. METALBRIDGE_ENVTEST_INDEX names another index. */
export async function installEnvtest(target, env = process.env) {
  const index = await fetchText(env.METALBRIDGE_ENVTEST_INDEX || DEFAULT_INDEX);
  const requested = { line: "1.36", platform: process.platform, arch: process.arch };
  const release = pickRelease(index, requested);
  if (release === undefined)
    throw new SetupError(`envtest has no archive for ${requested.platform} ${requested.arch}`);
  mkdirSync(target, { recursive: true });
  const archive = join(target, basename(new URL(release.url).pathname));
  await download(release.url, archive, { digest: { algorithm: "sha512", hex: release.hash } });
  const unpacked = mkdtempSync(join(target, ".unpack-"));
  try {
    const result = await run("tar", ["-xzf", archive, "-C", unpacked]);
    if (result.code !== 0) throw new SetupError(`${archive} cannot be unpacked: ${result.tail}`);
    for (const file of filesUnder(unpacked)) renameSync(file, join(target, basename(file)));
  } finally {
    rmSync(unpacked, { recursive: true, force: true });
    rmSync(archive, { force: true });
  }
}

function filesUnder(folder) {
  return readdirSync(folder)
    .map((name) => join(folder, name))
    .flatMap((file) => (statSync(file).isDirectory() ? filesUnder(file) : [file]));
}
