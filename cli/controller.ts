/** `metalbridge controller`: runs the controller in the foreground, inside or outside the cluster. */
import { type Command, Option } from "commander";
import { parseControllerConfig } from "../controller/config.ts";
import { dryRunController, runController } from "../controller/main.ts";
import { PREFLIGHT_MODES } from "../controller/options/preflight/review.ts";
import { catalogOption, readCatalogFiles } from "./catalog/read.ts";
import { addDaemonFlags, type DaemonFlags } from "./cluster/flags.ts";
import { createDryRun } from "./controller/dry-run.ts";
import { createJsonLog } from "./program/json-log.ts";
import { printLine } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface ControllerFlags extends DaemonFlags {
  readonly catalog?: readonly string[];
  readonly dryRun?: boolean;
  readonly [key: string]: unknown;
}

/** Options and action of the verb. */
export function configureController(command: Command): void {
  addDaemonFlags(command)
    .option("--dry-run", "print what the controller would do for each InferenceService, and exit")
    .option("--health-address <ip>", "address of /healthz, /readyz and /metrics (default: loopback)")
    .option(
      "--health-port <n>",
      "port of /healthz, /readyz and /metrics; 0 chooses a free port (default: 9464)",
    )
    .option("--flexinfer-metric-names", "also export metrics under their names in FlexInfer")
    .option("--hf-endpoint <url>", "Hugging Face endpoint or mirror")
    .option("--ollama-registry <url>", "registry of ollama:// sources (default: the Ollama registry)")
    .option("--allow-loopback", "allow model sources on the loopback address of this machine")
    .option("--allow-private", "allow model sources in any private network")
    .addOption(new Option("--no-allow-private").hideHelp())
    .option("--allow-networks <cidrs>", "allow model sources in these private networks, separated by commas")
    .option("--image <reference>", "Metalbridge image, for the Jobs that download weights to volumes")
    .option("--image-pull-secrets <names>", "pull Secrets for --image, separated by commas")
    .addOption(
      new Option(
        "--cache-scope <scope>",
        "create one weights volume for each namespace or for each Model (default: Namespace)",
      ).choices(["Namespace", "Model"]),
    )
    .option("--cache-size <quantity>", "size of a new weights volume (default: 100Gi)")
    .option(
      "--cache-storage-class <name>",
      "StorageClass of a new weights volume (default: the cluster default)",
    )
    .addOption(
      new Option(
        "--cache-access-mode <mode>",
        "access mode of a new weights volume (default: ReadWriteOnce)",
      ).choices(["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"]),
    )
    .option(
      "--cache-ca-config-map <name>",
      "ConfigMap (key ca.crt) with the certificate authorities that download Jobs trust",
    )
    .addOption(new Option("--stall-ms <n>").hideHelp())
    .addOption(new Option("--look-ms <n>").hideHelp())
    .option(
      "--source-check-seconds <n>",
      "interval in seconds between source checks of Models with refreshPolicy OnChange (default: 600)",
    )
    .action(controller);
  command.option(
    "--score-weights <pairs>",
    "weights in the score of machines (default: tps=0.7,utilization=0.2,cost=0.1)",
  );
  addBenchmarkOptions(command);
  addTunnelOptions(command);
  addEngineOptions(command);
  addFitnessOptions(command);
}

function addBenchmarkOptions(command: Command): void {
  command
    .addOption(
      new Option(
        "--benchmarks <mode>",
        "measure each Model on each class of machines, or start no benchmarks (default: Auto)",
      ).choices(["Auto", "Off"]),
    )
    .option("--benchmark-max-age <time>", "measure a Model again after this time (default: 720h)");
}

function addTunnelOptions(command: Command): void {
  command
    .option("--tunnel", "serve the tunnel, which connects users to hosts that enable remoteAccess")
    .option("--tunnel-address <ip>", "address of the tunnel (default: 0.0.0.0)")
    .option("--tunnel-port <n>", "port of the tunnel; 0 chooses a free port (default: 9466)")
    .addOption(
      new Option(
        "--transport <transport>",
        "traffic to hosts of services that do not set spec.endpoint.transport: Sealed is TLS to known clients only (default: Direct)",
      ).choices(["Sealed", "Direct"]),
    )
    .option(
      "--relay-service <name>",
      "Service of the relays, to which cluster Services of sealed services lead",
    );
}

function addEngineOptions(command: Command): void {
  command
    .option(
      "--engine-images <pairs>",
      "engine images for pods: runtime[/accelerator]=image, separated by commas",
    )
    .option("--engine-registry <path>", "registry prefix for the pinned engine images, to pull from a mirror")
    .option(
      "--host-paths <paths>",
      "folders of nodes from which pods may read file:// sources, separated by commas",
    )
    .addOption(new Option("--labels").hideHelp())
    .option("--no-labels", "do not label Nodes and Hosts with their hardware")
    .option("--label-prefix <prefix>", "prefix of these labels (default: metalbridge.dev/)")
    .addOption(
      new Option(
        "--gateway-mode <mode>",
        "with EnvoyAIGateway, every service gets a route on the Gateway of --gateway-ref (default: None)",
      ).choices(["None", "EnvoyAIGateway"]),
    )
    .option("--gateway-ref <namespace/name>", "Gateway for the routes of services that name none")
    .option(
      "--rule-labels <pairs>",
      "labels of the objects that spec.slo makes: key=value, separated by commas",
    )
    .option("--hosts-only", "run services on hosts only, without permissions on pods, Jobs and volumes")
    .addOption(new Option("--probe-nodes").hideHelp())
    .option("--no-probe-nodes", "run no probe pods on nodes that report too little")
    .option("--probe-runtime-class-name <name>", "RuntimeClass of the probe pods on nodes with NVIDIA GPUs");
}

function addFitnessOptions(command: Command): void {
  command
    .addOption(catalogOption())
    .addOption(new Option("--fitness").hideHelp())
    .option("--no-fitness", "do not read the catalog, and do not score machines for models")
    .option("--live-eviction", "evict replicas from machines whose fitness for the model has dropped")
    .option(
      "--live-eviction-percent <n>",
      "drop below the best score, in percent, that causes an eviction (default: 30)",
    )
    .option(
      "--live-eviction-check-interval <duration>",
      "interval between observations of the scores, from 10s to 1h (default: 30s)",
    )
    .addOption(
      new Option(
        "--preflight <mode>",
        "check InferenceServices in an admission webhook (default: Off)",
      ).choices([...PREFLIGHT_MODES]),
    )
    .option("--preflight-address <ip>", "address of the webhook (default: 0.0.0.0)")
    .option("--preflight-port <n>", "port of the webhook; 0 chooses a free port (default: 9443)")
    .option(
      "--preflight-names <names>",
      "DNS names and addresses in the webhook's certificate, separated by commas (default: its Service)",
    )
    .option(
      "--preflight-fixed-nodes",
      "also refuse services that fit on no existing node, for a cluster that never adds nodes",
    );
  addAutoscalingFlags(command);
}

function addAutoscalingFlags(command: Command): void {
  command
    .option(
      "--external-metrics",
      "serve the API external.metrics.k8s.io, by which a HorizontalPodAutoscaler scales services",
    )
    .option("--external-metrics-address <ip>", "address of that API (default: 0.0.0.0)")
    .option("--external-metrics-port <n>", "port of that API; 0 chooses a free port (default: 9467)")
    .option(
      "--external-metrics-names <names>",
      "DNS names and addresses in its certificate, separated by commas (default: its Service)",
    )
    .option("--load-endpoint <url>", "URL of this controller from which KEDA reads the requests of services");
}

async function controller(given: ControllerFlags): Promise<void> {
  const { logLevel, exitWithStdin, catalog, dryRun, ...flags } = given;
  const config = parseControllerConfig(flags);
  const log = createJsonLog(logLevel);
  const stop = listenForStop(dryRun === true ? {} : { exitWithStdin });
  const records = config.fitness ? (await readCatalogFiles(catalog)).records : [];
  const options = { config, records, log, signal: stop.signal };
  await (dryRun === true ? dryRunController(options, createDryRun(printLine)) : runController(options));
}
