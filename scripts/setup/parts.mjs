/** The parts that setup provides: who needs each, and which are provided side by side. */
import { existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundleIsFresh } from "./bundle.mjs";
import { cacheDir } from "./cache.mjs";
import { ensureChromium } from "./chromium.mjs";
import { ensureClusterParts } from "./cluster/cluster-parts.mjs";
import { run } from "./command.mjs";
import {
  ensureAIGatewayCrds,
  ensureEnvoyGatewayCrds,
  ensureGatewayApiCrds,
  ensureKarpenterCrds,
  ensureKEDACrds,
  ensureKueueCrds,
  ensureMonitoringCrds,
} from "./definitions.mjs";
import { ensureDependencies, ensureNode } from "./dependencies.mjs";
import { ensureEnvoy } from "./envoy.mjs";
import {
  ensureActionlint,
  ensureHelm,
  ensureKarpenter,
  ensureKwok,
  ensureLws,
  ensureOllama,
  ensureRegistry,
  ensureS3Server,
} from "./go-programs.mjs";
import { ensureImages } from "./images.mjs";
import { ensureLlamaServer } from "./llama/llama-server.mjs";
import { ensureLlamaRpc } from "./llama/rpc.mjs";
import { ensureNetworkTools } from "./network-tools.mjs";
import { ensureNodeParts } from "./node/node-parts.mjs";
import { ensurePrometheus } from "./prometheus/prometheus.mjs";
import { ensureAnsible, ensureMlxLm } from "./python-programs.mjs";
import { ensureRedis } from "./redis.mjs";
import { ensureSshServer } from "./ssh-server.mjs";
import { createProgress, describeFailure, SetupError } from "./steps.mjs";

export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** What a machine is set up for; each needs the parts of those before it too. `system`: `npm run test:system`, torture and interop. */
export const PURPOSES = ["start", "test", "system"];

/**
 * Lanes run side by side, the parts of a lane in turn: `npm` has what needs the packages, `fetch` what waits for a mirror,
 * `build` and `more` what keeps every core busy, two because the linker uses one core. `for` is the first purpose that needs the part. `ensure` gets `{ root, purpose, progress, parts }`,
 * where `parts` are the earlier ones of its lane, and returns the place of the part, or undefined where it cannot be had: then
 * its tests are skipped.
 */
export const LANES = {
  npm: [
    { name: "node", for: "start", ensure: ensurePackages },
    { name: "bundle", for: "start", ensure: ensureBundle },
    { name: "images", for: "test", ensure: ensureImages },
  ],
  build: [
    { name: "clusterPartFolders", for: "start", ensure: ensureClusterParts },
    { name: "actionlint", for: "test", ensure: ensureActionlint },
    { name: "karpenter", for: "system", ensure: ensureKarpenter },
    { name: "lws", for: "system", ensure: ensureLws },
  ],
  more: [
    { name: "kwok", for: "test", ensure: ensureKwok },
    { name: "helm", for: "test", ensure: ensureHelm },
    { name: "registry", for: "test", ensure: ensureRegistry },
    { name: "s3Server", for: "test", ensure: ensureS3Server },
    { name: "ollama", for: "test", ensure: ensureOllama },
  ],
  fetch: [
    { name: "llamaServer", for: "start", ensure: ensureLlamaServer },
    { name: "envoy", for: "start", ensure: ensureEnvoy },
    { name: "networkTools", for: "test", ensure: ensureNetworkTools },
    { name: "redis", for: "test", ensure: ensureRedis },
    { name: "llamaRpc", for: "test", ensure: ensureLlamaRpc },
    { name: "chromium", for: "test", ensure: ensureChromium },
    { name: "monitoringCrds", for: "test", ensure: ensureMonitoringCrds },
    { name: "kueueCrds", for: "test", ensure: ensureKueueCrds },
    { name: "kedaCrds", for: "test", ensure: ensureKEDACrds },
    { name: "gatewayApiCrds", for: "test", ensure: ensureGatewayApiCrds },
    { name: "envoyGatewayCrds", for: "test", ensure: ensureEnvoyGatewayCrds },
    { name: "aiGatewayCrds", for: "test", ensure: ensureAIGatewayCrds },
    { name: "mlxLm", for: "test", ensure: ensureMlxLm },
    { name: "sshServer", for: "system", ensure: ensureSshServer },
    { name: "ansible", for: "system", ensure: ensureAnsible },
    { name: "prometheus", for: "system", ensure: ensurePrometheus },
    { name: "karpenterCrds", for: "system", ensure: ensureKarpenterCrds },
    { name: "nodeParts", for: "system", ensure: ensureNodeParts },
  ],
};

/** True if the part is one of those that the purpose needs. */
export function isNeeded(part, purpose) {
  return PURPOSES.indexOf(part.for) <= PURPOSES.indexOf(purpose);
}

/** Provides the parts of a purpose; resolves with the place of each by name. A failed lane does not stop the others; then the first failure is thrown. */
export async function provide(lanes, { purpose, progress, ...rest }) {
  const provided = {};
  const failures = [];
  const run = async (lane) => {
    const parts = {};
    for (const part of lane.filter((one) => isNeeded(one, purpose)))
      parts[part.name] = await part.ensure({ ...rest, purpose, progress, parts });
    Object.assign(provided, parts);
  };
  const tell = (error) => {
    failures.push(error);
    progress.note(`${describeFailure(error)}\n    other steps continue`);
  };
  await Promise.all(Object.values(lanes).map((lane) => run(lane).catch(tell)));
  if (failures.length > 0) throw failures[0];
  return provided;
}

/** Path of a Node that can run Metalbridge. */
async function ensurePackages({ root, progress }) {
  await ensureDependencies(root, progress);
  return ensureNode(root);
}

async function ensureBundle({ root, progress, parts }) {
  if (!existsSync(join(root, "cli", "main.ts"))) return;
  if (bundleIsFresh(root)) return progress.cached("bundle", "dist/metalbridge.mjs");
  const build = [join(root, "node_modules", "tsx", "dist", "cli.mjs"), join(root, "scripts", "build.ts")];
  await progress.during("bundle", "dist/metalbridge.mjs", async () => {
    const { code, tail } = await run(parts.node, build, { cwd: root });
    if (code !== 0) throw new SetupError(`the build failed:\n${tail}`);
  });
}

/** Provides every part that the purpose needs, and returns the place of each by its name. */
export async function ensureParts({ purpose = "start", verbose = false } = {}) {
  const parts = await provide(LANES, { root, purpose, progress: createProgress({ verbose }) });
  record(parts);
  return parts;
}

/** For people and scripts; the programs look for themselves. */
function record(parts) {
  const file = join(cacheDir(), "setup.json");
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}.${process.pid}`, `${JSON.stringify(parts, null, 2)}\n`);
  renameSync(`${file}.${process.pid}`, file);
}
