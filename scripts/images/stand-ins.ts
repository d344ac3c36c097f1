/** Images that tests use under the names of engines' pinned images: the same program, from Debian's packages. No registry is asked. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { llamacppPod } from "../../src/engines/llamacpp/pod.ts";
import { debianOnly, downloadWithDependencies, STALE_LISTS } from "../setup/private-apt.mjs";
import { cacheKey, imagesCache } from "./cache.ts";
import { type DebianArchitecture, debianMirror } from "./debian-lock.ts";
import type { LayerEntry } from "./entries.ts";
import { cachedLayer } from "./layer.ts";
import type { PlatformImage } from "./layout.ts";
import { accountEntries } from "./ours.ts";
import { entriesOfPackages } from "./packages.ts";

/** The first of Debian's suites with llama.cpp. It changes daily: what the cache has is used, whatever its age. */
const SUITE = "forky";
/** The image of llama.cpp has a shell and curl too. */
const PACKAGES = ["base-files", "llama.cpp-tools", "libgomp1", "curl", "dash", "coreutils", "grep"];
const DOCUMENTATION = /^usr\/share\/(doc|man|locale|info|lintian|bash-completion)\//;
/** Raised by hand when other entries are made of the same packages. */
const FORMAT = 1;

/** The builds for GPUs find no device and use the CPU, as the published ones do where there is none. */
export const LLAMACPP_REFERENCES = Object.values(llamacppPod.images);

export async function llamacppImage(architecture: DebianArchitecture): Promise<PlatformImage> {
  const folder = path.join(
    imagesCache("layers"),
    `llamacpp-${architecture}-${cacheKey(FORMAT, SUITE, PACKAGES)}`,
  );
  const layer = await cachedLayer({ compression: "none", folder }, async () => [
    ...(await rootFromDebian(architecture)),
    ...accountEntries(),
    { type: "link", name: "app/llama-server", target: "/usr/bin/llama-server" },
  ]);
  const config = {
    User: "",
    Env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LLAMA_ARG_HOST=0.0.0.0"],
    Entrypoint: ["/app/llama-server"],
    WorkingDir: "/app",
  };
  return { architecture, layers: [layer], config };
}

/** The packages and all that they depend on; Debian's signatures are checked. */
async function rootFromDebian(architecture: DebianArchitecture): Promise<readonly LayerEntry[]> {
  const work = mkdtempSync(path.join(tmpdir(), "mb-apt-"));
  try {
    const settings = debianOnly(work, [`${debianMirror()}/debian ${SUITE}`], architecture);
    const archives = await downloadWithDependencies(work, PACKAGES, { ...settings, ...STALE_LISTS });
    const entries = await entriesOfPackages(archives);
    return entries.filter(({ name }) => !DOCUMENTATION.test(name));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
