/** prometheus and promtool from Prometheus' own release archives, checked by their SHA-256. */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { run } from "../command.mjs";
import { download, fetchText } from "../download.mjs";
import { SetupError } from "../steps.mjs";
import { publish } from "./publish.mjs";

const DEFAULT_RELEASES = "https://github.com/prometheus/prometheus/releases/download";
const DEFAULT_VERSION = "3.5.0";

/** Pure: name of the archive for a machine, or undefined where Prometheus publishes none. */
export function archiveName(version, platform, arch) {
  if (!["darwin", "linux"].includes(platform) || !["x64", "arm64"].includes(arch)) return undefined;
  return `prometheus-${version}.${platform}-${arch === "x64" ? "amd64" : arch}.tar.gz`;
}

/** Pure: the digest that sha256sums.txt has for a file. */
export function digestOf(name, sums) {
  const line = sums.split("\n").find((each) => each.endsWith(`  ${name}`));
  return line?.match(/^[0-9a-f]{64}(?= )/)?.[0];
}

/** METALBRIDGE_PROMETHEUS_RELEASES and METALBRIDGE_PROMETHEUS_VERSION name another place and release. */
export async function installRelease(cache, env = process.env) {
  const version = env.METALBRIDGE_PROMETHEUS_VERSION || DEFAULT_VERSION;
  const place = `${env.METALBRIDGE_PROMETHEUS_RELEASES || DEFAULT_RELEASES}/v${version}`;
  const name = archiveName(version, process.platform, process.arch);
  if (name === undefined)
    throw new SetupError(`Prometheus publishes no archive for ${process.platform} ${process.arch}`);
  const hex = digestOf(name, await fetchText(`${place}/sha256sums.txt`));
  if (hex === undefined) throw new SetupError(`${place}/sha256sums.txt does not name ${name}`);
  mkdirSync(cache, { recursive: true });
  const archive = join(cache, `.${name}`);
  await download(`${place}/${name}`, archive, { digest: { algorithm: "sha256", hex } });
  const work = mkdtempSync(join(cache, ".release-"));
  try {
    const result = await run("tar", ["-xzf", archive, "-C", work]);
    if (result.code !== 0) throw new SetupError(`${archive} cannot be unpacked: ${result.tail}`);
    return publish(join(work, basename(name, ".tar.gz")), join(cache, version));
  } finally {
    rmSync(work, { recursive: true, force: true });
    rmSync(archive, { force: true });
  }
}
installRelease.label = "fetching Prometheus' release archive";
