/** Tools for tests that send traffic through a real kube-proxy: Linux, root, and three packages. */
import { findOnPath, run } from "./command.mjs";

/** Program → Debian package. */
const TOOLS = { ip: "iproute2", nft: "nftables", conntrack: "conntrack" };

/** Optional: says what is skipped without them, and never fails. */
export async function ensureNetworkTools({ progress, env = process.env }) {
  if (process.platform !== "linux" || process.getuid?.() !== 0) {
    return progress.note(
      "tests that send traffic through a Service need Linux and root; they are skipped here",
    );
  }
  const missing = () =>
    Object.keys(TOOLS).filter((name) => findOnPath(name, { PATH: searched(env) }) === undefined);
  if (missing().length === 0) return progress.cached("network tools", "present");
  if (findOnPath("apt-get", env) === undefined) return skipped(missing(), progress);
  const packages = missing().map((name) => TOOLS[name]);
  await progress.during("network tools", `apt-get install ${packages.join(" ")}`, async () => {
    const options = { env: { ...env, DEBIAN_FRONTEND: "noninteractive" }, timeoutMs: 180_000 };
    await run("apt-get", ["update", "-qq"], options);
    await run("apt-get", ["install", "-y", "-qq", "--no-install-recommends", ...packages], options);
  });
  if (missing().length > 0) skipped(missing(), progress);
}

function skipped(names, progress) {
  progress.note(`${names.join(", ")} not installed: tests that send traffic through a Service are skipped`);
}

/** Administrators' programs are not on every PATH. */
function searched(env) {
  return `${env.PATH ?? ""}:/usr/sbin:/sbin`;
}
