/** etcd, kube-apiserver and their companions: a named folder, the cache, envtest's archives, or a Go build, in this order. */
import { join } from "node:path";
import { clusterPartsDir } from "../cache.mjs";
import { findOnPath, isExecutable } from "../command.mjs";
import { SetupError } from "../steps.mjs";
import { installEnvtest } from "./envtest.mjs";
import { buildProgram, PROGRAMS } from "./go-build.mjs";

const REQUIRED = ["etcd", "kube-apiserver", "kubectl"];

/** What is missing without it; envtest's archives hold none of these. */
const OPTIONAL = {
  "kube-controller-manager":
    "garbage collection, service accounts and Deployments do not work in the embedded control plane",
};
const FOR_TESTS = {
  ...(process.platform === "linux" ? { kubelet: "tests with containers on a real node are skipped" } : {}),
  "kube-proxy": "tests that send traffic through a Service are skipped",
  "kube-scheduler": "tests with pods on simulated nodes are skipped",
};

/** Returns the folders to search, in order. With `forTest` the optional programs are built too where Go is installed. */
export async function ensureClusterParts({ progress, forTest, env = process.env }) {
  const cached = clusterPartsDir(env);
  const folders = env.KUBEBUILDER_ASSETS ? [env.KUBEBUILDER_ASSETS, cached] : [cached];
  const missing = (names) =>
    names.filter((name) => !folders.some((folder) => isExecutable(join(folder, name))));
  if (missing(REQUIRED).length === 0) progress.cached("control plane", folders.join(", "));
  else await provideRequired(missing, cached, progress, env);
  await provideOptional(missing, cached, progress, forTest, env);
  return folders;
}

async function provideRequired(missing, target, progress, env) {
  let why;
  try {
    await progress.during("control plane", "fetching etcd, kube-apiserver, kubectl", () =>
      installEnvtest(target, env),
    );
    if (missing(REQUIRED).length === 0) return;
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    why = error.message;
    progress.note(`${error.message}; building from source instead`);
  }
  const go = findOnPath("go", env);
  if (go === undefined) {
    throw new SetupError(
      `the control plane needs ${missing(REQUIRED).join(", ")}; ${why ?? "the archive lacks them"}`,
      [
        "with internet access run setup again: the programs are fetched from envtest's releases",
        "or install Go 1.21 or newer and run setup again: they are built from source",
        "or name a folder that holds them in KUBEBUILDER_ASSETS",
      ],
    );
  }
  await buildAll(missing(REQUIRED), target, progress, go);
}

async function provideOptional(missing, target, progress, forTest, env) {
  const reasons = forTest ? { ...OPTIONAL, ...FOR_TESTS } : OPTIONAL;
  const absent = missing(Object.keys(reasons));
  if (absent.length === 0) return;
  const go = findOnPath("go", env);
  if (forTest && go !== undefined) return await buildAll(absent, target, progress, go);
  for (const name of absent)
    progress.note(`${name} is not here (it is built where Go is installed): ${reasons[name]}`);
}

async function buildAll(names, target, progress, go) {
  for (const name of names) {
    await progress.during(name, `building, about ${PROGRAMS[name].firstBuild} the first time`, () =>
      buildProgram(name, target, { go }),
    );
  }
}
