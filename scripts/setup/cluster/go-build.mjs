/** Builds the cluster's programs from their pinned Go modules: slow once, works wherever a module proxy can be reached. */
import { mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { run } from "../command.mjs";
import { SetupError } from "../steps.mjs";

const MODULE = fileURLToPath(new URL("../cluster-parts/", import.meta.url));
const VERSION = "v1.36.3";

/** Each program's package, and how long a first build takes on two cores. */
export const PROGRAMS = {
  etcd: { package: "go.etcd.io/etcd/server/v3", firstBuild: "half a minute" },
  "kube-apiserver": { package: "k8s.io/kubernetes/cmd/kube-apiserver", firstBuild: "four minutes" },
  kubectl: { package: "k8s.io/kubernetes/cmd/kubectl", firstBuild: "a minute" },
  "kube-controller-manager": {
    package: "k8s.io/kubernetes/cmd/kube-controller-manager",
    firstBuild: "a minute",
  },
  "kube-proxy": { package: "k8s.io/kubernetes/cmd/kube-proxy", firstBuild: "half a minute" },
  kubelet: { package: "k8s.io/kubernetes/cmd/kubelet", firstBuild: "half a minute" },
  "kube-scheduler": { package: "k8s.io/kubernetes/cmd/kube-scheduler", firstBuild: "half a minute" },
};

/** Builds one program under a temporary name and renames it, so that an interrupted build leaves nothing half. */
export async function buildProgram(name, target, { go }) {
  mkdirSync(target, { recursive: true });
  const temporary = join(target, `.${name}.${process.pid}`);
  const args = ["build", "-trimpath", "-ldflags", linkerFlags(), "-o", temporary, PROGRAMS[name].package];
  const result = await run(go, args, { cwd: MODULE, env: { ...process.env, CGO_ENABLED: "0", GOFLAGS: "" } });
  if (result.code !== 0) {
    rmSync(temporary, { force: true });
    throw new SetupError(`building ${name} with ${go} failed:\n${result.tail}`, [
      "check that a Go module proxy can be reached (go env GOPROXY) and that the disk has 5 GB free",
      "or name a folder with etcd, kube-apiserver and kubectl in KUBEBUILDER_ASSETS",
    ]);
  }
  renameSync(temporary, join(target, name));
}

function linkerFlags() {
  const version = "k8s.io/component-base/version";
  const [major, minor] = VERSION.slice(1).split(".");
  return `-s -w -X ${version}.gitVersion=${VERSION} -X ${version}.gitMajor=${major} -X ${version}.gitMinor=${minor}`;
}
