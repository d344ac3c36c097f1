/** `metalbridge controller`: the controller in the foreground, in the cluster or beside it. */
import { type Command, Option } from "commander";
import { parseControllerConfig } from "../controller/config.ts";
import { runController } from "../controller/main.ts";
import { PREFLIGHT_MODES } from "../controller/preflight/review.ts";
import { catalogOption, readCatalogFiles } from "./catalog/read.ts";
import { createJsonLog, LOG_LEVELS } from "./program/json-log.ts";
import { whenStdinEnds } from "./program/stdin-lifetime.ts";
import { listenForStop } from "./program/stop-signals.ts";

/** Accepted and ignored: a Deployment of an earlier version passes them. */
const RETIRED_FLAGS = [
  "identity",
  "lease-duration-seconds",
  "lease-renew-deadline-seconds",
  "lease-retry-seconds",
  "max-header-bytes",
  "live-eviction-seconds",
  "live-eviction-observations",
  "live-eviction-cooldown-seconds",
  "live-eviction-minimum-stay-seconds",
  "preflight-certificate-days",
];

interface ControllerFlags {
  readonly logLevel: string;
  readonly exitWithStdin?: boolean;
  readonly catalog?: readonly string[];
  readonly [key: string]: unknown;
}

/** Options and action of the verb. */
export function configureController(command: Command): void {
  command
    .option(
      "--kubeconfig <file>",
      "how to reach the cluster (default: KUBECONFIG, ~/.kube/config, the pod's ServiceAccount)",
    )
    .option("--context <name>", "context of the kubeconfig")
    .option("--health-address <ip>", "address of /healthz, /readyz and /metrics (default: loopback)")
    .option("--health-port <n>", "their port; 0 takes a free one (default: 9464)")
    .option("--hf-endpoint <url>", "Hugging Face endpoint or mirror")
    .option("--ollama-registry <url>", "registry of ollama:// sources (default: Ollama's own)")
    .option("--allow-loopback", "allow sources on this machine's loopback")
    .option("--allow-private", "allow sources in any private network")
    .addOption(new Option("--no-allow-private").hideHelp())
    .option("--allow-networks <cidrs>", "allow sources in these private networks, separated by commas")
    .option("--image <reference>", "image of Metalbridge itself, for Jobs that download weights to volumes")
    .option("--image-pull-secrets <names>", "Secrets for pulling it, separated by commas")
    .addOption(
      new Option(
        "--cache-scope <scope>",
        "one volume for each namespace or Model (default: Namespace)",
      ).choices(["Namespace", "Model"]),
    )
    .option("--cache-size <quantity>", "size of a new volume for weights (default: 100Gi)")
    .option("--cache-storage-class <name>", "its StorageClass (default: the cluster's)")
    .addOption(
      new Option("--cache-access-mode <mode>", "its access mode (default: ReadWriteOnce)").choices([
        "ReadWriteOnce",
        "ReadWriteMany",
        "ReadWriteOncePod",
      ]),
    )
    .option(
      "--cache-ca-config-map <name>",
      "ConfigMap with the authorities that download Jobs trust (ca.crt)",
    )
    .addOption(new Option("--stall-ms <n>").hideHelp())
    .addOption(new Option("--look-ms <n>").hideHelp())
    .option(
      "--source-check-seconds <n>",
      "check the sources of Models with refreshPolicy OnChange this often, in seconds (default: 600)",
    )
    .addOption(new Option("--log-level <level>", "log level").choices([...LOG_LEVELS]).default("info"))
    .addOption(new Option("--exit-with-stdin").hideHelp())
    .action(controller);
  addTunnelOptions(command);
  addEngineOptions(command);
  addFitnessOptions(command);
  for (const flag of RETIRED_FLAGS) command.addOption(new Option(`--${flag} <value>`).hideHelp());
}

function addTunnelOptions(command: Command): void {
  command
    .option("--tunnel", "connect users with hosts that have switched on remoteAccess")
    .option("--tunnel-address <ip>", "address of the tunnel (default: 0.0.0.0)")
    .option("--tunnel-port <n>", "its port; 0 takes a free one (default: 9466)");
}

function addEngineOptions(command: Command): void {
  command
    .option(
      "--engine-images <pairs>",
      "images of engines in pods: runtime[/accelerator]=image, separated by commas",
    )
    .option("--engine-registry <path>", "put before the pinned images of engines, for a mirror")
    .option("--hosts-only", "run no services in pods, and need no rights to pods, Jobs and volumes")
    .option("--probe-nodes", "ask nodes of which too little is known by a pod of a few seconds")
    .option("--probe-runtime-class-name <name>", "RuntimeClass of these pods on nodes with NVIDIA GPUs");
}

function addFitnessOptions(command: Command): void {
  command
    .addOption(catalogOption())
    .addOption(new Option("--fitness").hideHelp())
    .option("--no-fitness", "do not score machines for models: the catalog is not read")
    .option("--live-eviction", "move replicas off machines whose fitness for their model has fallen")
    .option(
      "--live-eviction-percent <n>",
      "part of the best score that must be lost, in percent (default: 30)",
    )
    .addOption(
      new Option(
        "--preflight <mode>",
        "judge InferenceServices by a webhook before they are stored (default: Off)",
      ).choices([...PREFLIGHT_MODES]),
    )
    .option("--preflight-address <ip>", "address of the webhook (default: 0.0.0.0)")
    .option("--preflight-port <n>", "its port; 0 takes a free one (default: 9443)")
    .option(
      "--preflight-names <names>",
      "DNS names and addresses in its certificate, separated by commas (default: its Service)",
    )
    .option("--preflight-fixed-nodes", "no nodes are added: refuse also what fits no node that exists");
}

async function controller({ logLevel, exitWithStdin, catalog, ...flags }: ControllerFlags): Promise<void> {
  const { settings, retired } = withoutRetired(flags);
  const config = parseControllerConfig(settings);
  const log = createJsonLog(logLevel);
  if (retired.length > 0) log.warn({ flags: retired }, "these flags have no effect any more: remove them");
  const stop = listenForStop();
  if (exitWithStdin === true) whenStdinEnds(stop.stop);
  const records = config.fitness ? (await readCatalogFiles(catalog)).records : [];
  await runController({ config, records, log, signal: stop.signal });
}

/** The flags that still mean something, and the names of those that do not. */
export function withoutRetired(flags: Readonly<Record<string, unknown>>) {
  const settings = { ...flags };
  const retired: string[] = [];
  for (const flag of RETIRED_FLAGS) {
    const key = new Option(`--${flag}`).attributeName();
    if (settings[key] !== undefined) retired.push(`--${flag}`);
    delete settings[key];
  }
  return { settings, retired };
}
