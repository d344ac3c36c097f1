/** etcd, kube-apiserver and their companions: a named folder, the cache, envtest's archives, or a Go build, in this order. */
import { join } from "node:path";
import { clusterPartsDir } from "../cache.mjs";
import { findOnPath, isExecutable } from "../command.mjs";
import { SetupError } from "../steps.mjs";
import { installEnvtest } from "./envtest.mjs";
import { buildPrograms } from "./go-build.mjs";

/** The archives of envtest hold these. */
const REQUIRED = ["etcd", "kube-apiserver", "kubectl"];

/** What is missing without it. */
const OPTIONAL = {
  "kube-controller-manager":
    "garbage collection, service accounts and Deployments do not work in the embedded control plane",
};
const FOR_TESTS = {
  "kube-proxy": "tests that send traffic through a Service are skipped",
  "kube-scheduler": "tests with pods on simulated nodes are skipped",
};
const FOR_NODES =
  process.platform === "linux" ? { kubelet: "tests with containers on a real node are skipped" } : {};

/** Returns the folders to search, in order. Where Go is installed, all that is missing is built in one run. */
export async function ensureClusterParts({ progress, purpose, env = process.env }) {
  const cached = clusterPartsDir(env);
  const folders = env.KUBEBUILDER_ASSETS ? [env.KUBEBUILDER_ASSETS, cached] : [cached];
  const missing = (names) =>
    names.filter((name) => !folders.some((folder) => isExecutable(join(folder, name))));
  if (missing(REQUIRED).length === 0) progress.cached("control plane", folders.join(", "));
  else await fetchRequired(missing, cached, progress, env);
  const required = {
    ...OPTIONAL,
    ...(purpose === "start" ? {} : FOR_TESTS),
    ...(purpose === "system" ? FOR_NODES : {}),
  };
  const go = findOnPath("go", env);
  // `npm start` does not wait for what it can do without.
  const built = purpose === "start" || go === undefined ? [] : missing(Object.keys(required));
  const absent = [...missing(REQUIRED), ...built];
  if (absent.length > 0) await build(absent, { go, target: cached, progress, env });
  for (const name of missing(Object.keys(required)))
    progress.note(`${name} is not here (it is built where Go is installed): ${required[name]}`);
  return folders;
}

/** From the archives of envtest; what they lack is built, if Go is installed. */
async function fetchRequired(missing, target, progress, env) {
  let why = "the archive lacks them";
  try {
    await progress.during("control plane", "fetching etcd, kube-apiserver, kubectl", () =>
      installEnvtest(target, env),
    );
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    why = error.message;
    progress.note(`${why}; building from source instead`);
  }
  if (missing(REQUIRED).length === 0 || findOnPath("go", env) !== undefined) return;
  throw new SetupError(`the control plane needs ${missing(REQUIRED).join(", ")}; ${why}`, [
    "with internet access run setup again: the programs are fetched from envtest's releases",
    "or install Go 1.21 or newer and run setup again: they are built from source",
    "or name a folder that holds them in KUBEBUILDER_ASSETS",
  ]);
}

async function build(names, { go, target, progress, env }) {
  const needsAll = names.includes("kube-apiserver");
  const what = `building ${names.join(", ")}; the first time about ${needsAll ? "five minutes" : "a minute"}`;
  await progress.during("control plane", what, () => buildPrograms(names, target, { go, env }));
}
