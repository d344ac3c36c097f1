/** Builds the cluster's programs from their pinned Go modules: slow once, works wherever a module proxy can be reached. */
import { mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { BUILD_FLAGS, LINK_FLAGS, runGo } from "../go.mjs";
import { SetupError } from "../steps.mjs";

const MODULE = fileURLToPath(new URL("../cluster-parts/", import.meta.url));
const VERSION = "v1.36.3";

const PACKAGES = {
  etcd: "go.etcd.io/etcd/server/v3",
  ...Object.fromEntries(
    ["kube-apiserver", "kubectl", "kube-controller-manager", "kube-proxy", "kubelet", "kube-scheduler"].map(
      (name) => [name, `k8s.io/kubernetes/cmd/${name}`],
    ),
  ),
};

/** One run of Go for all: they share most packages, and where one program is linked, others are compiled. Each is published by a rename. */
export async function buildPrograms(names, target, { go, env }) {
  mkdirSync(target, { recursive: true });
  const work = mkdtempSync(join(target, ".build-"));
  try {
    const packages = names.map((name) => PACKAGES[name]);
    const args = ["build", ...BUILD_FLAGS, `-ldflags=${linkerFlags()}`, "-o", `${work}/`, ...packages];
    const result = await runGo(go, args, { env, cwd: MODULE });
    if (result.code !== 0)
      throw new SetupError(`building ${names.join(", ")} with ${go} failed:\n${result.tail}`, [
        "check that a Go module proxy can be reached (go env GOPROXY) and that the disk has 5 GB free",
        "or name a folder with etcd, kube-apiserver and kubectl in KUBEBUILDER_ASSETS",
      ]);
    for (const name of names) renameSync(join(work, builtName(name)), join(target, name));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Go names a program after its package, without the major version. */
function builtName(name) {
  return basename(PACKAGES[name].replace(/\/v\d+$/, ""));
}

function linkerFlags() {
  const version = "k8s.io/component-base/version";
  const [major, minor] = VERSION.slice(1).split(".");
  return `${LINK_FLAGS} -X ${version}.gitVersion=${VERSION} -X ${version}.gitMajor=${major} -X ${version}.gitMinor=${minor}`;
}
