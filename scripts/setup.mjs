/** `npm run setup`: everything Metalbridge needs on this machine, each part once. Plain Node 20, no packages. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { bundleIsFresh } from "./setup/bundle.mjs";
import { cacheDir } from "./setup/cache.mjs";
import { ensureClusterParts } from "./setup/cluster/cluster-parts.mjs";
import { ensureDependencies, ensureNode } from "./setup/dependencies.mjs";
import { ensureHelm } from "./setup/helm.mjs";
import { ensureKwok } from "./setup/kwok.mjs";
import { ensureLlamaServer } from "./setup/llama/llama-server.mjs";
import { ensureMlxLm } from "./setup/mlx-lm.mjs";
import { ensureMonitoringCrds } from "./setup/monitoring-crds.mjs";
import { ensureNetworkTools } from "./setup/network-tools.mjs";
import { ensureOllama } from "./setup/ollama.mjs";
import { ensurePrometheus } from "./setup/prometheus/prometheus.mjs";
import { ensureRegistry } from "./setup/registry.mjs";
import { ensureS3Server } from "./setup/s3-server.mjs";
import { createProgress, describeFailure, SetupError } from "./setup/steps.mjs";

export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/**
 * Provides every part and returns where it is: `{ node, clusterPartFolders, llamaServer, prometheus?, ollama?, helm?, kwok?, registry?, s3Server? }`.
 * `purpose` "test" adds what only tests need.
 */
export async function ensureParts({ purpose = "start", verbose = false } = {}) {
  const progress = createProgress({ verbose });
  await ensureDependencies(root, progress);
  const node = ensureNode(root);
  const clusterPartFolders = await ensureClusterParts({ progress, forTest: purpose === "test" });
  const llamaServer = await ensureLlamaServer({ progress });
  if (purpose === "test") await ensureNetworkTools({ progress });
  if (purpose === "test") await ensureMlxLm({ progress });
  if (purpose === "test") await ensureMonitoringCrds({ progress });
  const prometheus = purpose === "test" ? await ensurePrometheus({ progress }) : undefined;
  const ollama = purpose === "test" ? await ensureOllama({ progress }) : undefined;
  const helm = purpose === "test" ? await ensureHelm({ progress }) : undefined;
  const kwok = purpose === "test" ? await ensureKwok({ progress }) : undefined;
  const registry = purpose === "test" ? await ensureRegistry({ progress }) : undefined;
  const s3Server = purpose === "test" ? await ensureS3Server({ progress }) : undefined;
  await ensureBundle(node, progress);
  const parts = {
    node,
    clusterPartFolders,
    llamaServer,
    ...(prometheus === undefined ? {} : { prometheus }),
    ...(ollama === undefined ? {} : { ollama }),
    ...(helm === undefined ? {} : { helm }),
    ...(kwok === undefined ? {} : { kwok }),
    ...(registry === undefined ? {} : { registry }),
    ...(s3Server === undefined ? {} : { s3Server }),
  };
  record(parts);
  return parts;
}

async function ensureBundle(node, progress) {
  if (!existsSync(join(root, "cli", "main.ts"))) return;
  if (bundleIsFresh(root)) return progress.cached("bundle", "dist/metalbridge.mjs");
  const tsx = join(root, "node_modules", "tsx", "dist", "cli.mjs");
  await progress.during("bundle", "dist/metalbridge.mjs", () => {
    const result = spawnSync(node, [tsx, join(root, "scripts", "build.ts")], { cwd: root, encoding: "utf8" });
    if (result.status !== 0) throw new SetupError(`the build failed:\n${result.stderr}${result.stdout}`);
  });
}

/** For people and scripts; the programs look for themselves. */
function record(parts) {
  const file = join(cacheDir(), "setup.json");
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}.${process.pid}`, `${JSON.stringify(parts, null, 2)}\n`);
  renameSync(`${file}.${process.pid}`, file);
}

const USAGE = `Usage: npm run setup [-- --for start|test]

Provides npm packages, the control plane's programs and llama-server, each once, in ${cacheDir()}.
Environment: METALBRIDGE_CACHE, KUBEBUILDER_ASSETS, METALBRIDGE_LLAMA_SERVER, METALBRIDGE_ENVTEST_INDEX,
METALBRIDGE_LLAMA_RELEASES, METALBRIDGE_LLAMA_TAG, METALBRIDGE_PROMETHEUS, METALBRIDGE_OLLAMA, METALBRIDGE_HELM,
METALBRIDGE_KWOK, METALBRIDGE_REGISTRY, METALBRIDGE_S3_SERVER (see scripts/README.md).`;

async function runFromCommandLine() {
  const options = { for: { type: "string", default: "start" }, help: { type: "boolean", short: "h" } };
  const { values } = parseArgs({ options });
  if (values.help) return console.log(USAGE);
  if (!["start", "test"].includes(values.for)) throw new SetupError("--for takes start or test");
  const parts = await ensureParts({ purpose: values.for, verbose: true });
  console.log(`ready: ${Object.values(parts).flat().join("\n       ")}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  runFromCommandLine().catch((error) => {
    console.error(describeFailure(error));
    process.exitCode = 1;
  });
}
