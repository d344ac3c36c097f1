/** `metalbridge server`: runs the density API server in the foreground, inside or outside the cluster. */
import path from "node:path";
import { type Command, Option } from "commander";
import { packageRoot, packageVersion } from "../local/package-root.ts";
import { parseServerConfig } from "../server/config.ts";
import { runServer } from "../server/main.ts";
import { catalogOption, readCatalogFiles } from "./catalog/read.ts";
import { addDaemonFlags, type DaemonFlags } from "./cluster/flags.ts";
import { createJsonLog } from "./program/json-log.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface ServerFlags extends DaemonFlags {
  readonly catalog?: readonly string[];
  readonly [key: string]: unknown;
}

/** Options and action of the verb. */
export function configureServer(command: Command): void {
  addDaemonFlags(command)
    .option("--address <ip>", "address of the density API (default: loopback)")
    .option("--port <n>", "port of the density API; 0 chooses a free port (default: 8080)")
    .option("--tls-cert <file>", "certificate chain (PEM) of the density API (default: plain HTTP)")
    .option("--tls-key <file>", "private key (PEM) of the density API")
    .option("--health-address <ip>", "address of /healthz, /readyz and /metrics (default: loopback)")
    .option(
      "--health-port <n>",
      "port of /healthz, /readyz and /metrics; 0 chooses a free port (default: 9464)",
    )
    .option(
      "--extender-port <n>",
      "port that kube-scheduler connects to as its extender; 0 chooses a free port (default: none)",
    )
    .option(
      "--extender-tls-cert <file>",
      "certificate chain (PEM) of the extender's port (default: plain HTTP, on loopback only)",
    )
    .option("--extender-tls-key <file>", "private key (PEM) of the extender's port")
    .option("--metrics-prefix <name>", "prefix of the density metrics (default: metalbridge_density)")
    .option(
      "--score-weights <pairs>",
      "weights of the controller in the score of machines (default: tps=0.7,utilization=0.2,cost=0.1)",
    )
    .addOption(catalogOption());
  addConsoleFlags(command)
    .addOption(new Option("--console").hideHelp())
    .option("--no-console", "do not serve the console")
    .option("--oidc-issuer <url>", "identity provider with which readers sign in to the console")
    .option("--oidc-client-id <id>", "client ID of the console at the identity provider")
    .option("--oidc-client-secret-file <file>", "client secret (default: a public client)")
    .option("--oidc-scopes <scopes>", "scopes of the sign-in (default: openid profile email offline_access)")
    .option("--oidc-ca-file <file>", "authority (PEM) of the identity provider's certificate")
    .option("--session-key-file <file>", "secret that seals sessions of the console, shared by all replicas")
    .action(server);
}

/** Options of the console that `metalbridge server` and `metalbridge console` share. */
export function addConsoleFlags(command: Command): Command {
  return command
    .option("--console-read-only", "refuse changes in the console, except dry runs")
    .option("--gateway-url <url>", "base URL of the gateway, without /v1, for the playground of the console")
    .option("--gateway-ca-file <file>", "authority (PEM) of the gateway's certificate")
    .option(
      "--gateway-public-url <url>",
      "base URL of the gateway as clients reach it (default: the gateway URL)",
    )
    .option(
      "--gateway-health-url <url...>",
      "health ports of gateways, for the queues of requests in the console (default: the pods of the chart)",
    )
    .option(
      "--gateway-namespace <name>",
      "namespace with the pods of the gateway (default: metalbridge-system)",
    )
    .option("--gateway-keys-namespace <name>", "namespace with the keys of the gateway, if it is another one")
    .option(
      "--gateway-kubernetes-tokens",
      "send the reader's Kubernetes token to the gateway, which accepts such tokens",
    );
}

/** Folder with the built pages of the console. */
export function consoleFolder(): string {
  return path.join(packageRoot(), "dist", "console");
}

async function server({ logLevel, exitWithStdin, catalog, ...settings }: ServerFlags): Promise<void> {
  const config = parseServerConfig(settings);
  const { records, refused } = await readCatalogFiles(catalog);
  const log = createJsonLog(logLevel);
  for (const { where, why } of refused)
    log.warn({ record: where, why }, "an invalid catalog record was dropped");
  const { signal } = listenForStop({ exitWithStdin });
  const pages = { folder: consoleFolder() };
  await runServer({ config, records, version: packageVersion(), console: pages, log, signal });
}
