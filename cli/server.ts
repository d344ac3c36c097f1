/** `metalbridge server`: the density API in the foreground, in the cluster or beside it. */
import { type Command, Option } from "commander";
import { packageVersion } from "../local/package-root.ts";
import { parseServerConfig } from "../server/config.ts";
import { runServer } from "../server/main.ts";
import { catalogOption, readCatalogFiles } from "./catalog/read.ts";
import { createJsonLog, LOG_LEVELS } from "./program/json-log.ts";
import { whenStdinEnds } from "./program/stdin-lifetime.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface ServerFlags {
  readonly logLevel: string;
  readonly exitWithStdin?: boolean;
  readonly catalog?: readonly string[];
  readonly [key: string]: unknown;
}

/** Options and action of the verb. */
export function configureServer(command: Command): void {
  command
    .option(
      "--kubeconfig <file>",
      "how to reach the cluster (default: KUBECONFIG, ~/.kube/config, the pod's ServiceAccount)",
    )
    .option("--context <name>", "context of the kubeconfig")
    .option("--address <ip>", "address of the density API (default: loopback)")
    .option("--port <n>", "its port; 0 takes a free one (default: 8080)")
    .option("--tls-cert <file>", "certificate chain (PEM) of the density API (default: plain HTTP)")
    .option("--tls-key <file>", "its private key (PEM)")
    .option("--health-address <ip>", "address of /healthz, /readyz and /metrics (default: loopback)")
    .option("--health-port <n>", "their port; 0 takes a free one (default: 9464)")
    .option(
      "--metrics-prefix <name>",
      "what the names of the density metrics begin with (default: metalbridge_density)",
    )
    .addOption(catalogOption())
    .addOption(new Option("--log-level <level>", "log level").choices([...LOG_LEVELS]).default("info"))
    .addOption(new Option("--exit-with-stdin").hideHelp())
    .action(server);
}

async function server({ logLevel, exitWithStdin, catalog, ...settings }: ServerFlags): Promise<void> {
  const config = parseServerConfig(settings);
  const { records, refused } = await readCatalogFiles(catalog);
  const log = createJsonLog(logLevel);
  for (const { where, why } of refused)
    log.warn({ record: where, why }, "a record of the catalog is left out");
  const stop = listenForStop();
  if (exitWithStdin === true) whenStdinEnds(stop.stop);
  await runServer({ config, records, version: packageVersion(), log, signal: stop.signal });
}
