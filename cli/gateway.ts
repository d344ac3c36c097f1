/** `metalbridge gateway`: runs the gateway with its Envoy in the foreground, inside or outside the cluster. */
import type { Command } from "commander";
import { parseGatewayConfig } from "../gateway/config.ts";
import { runGateway } from "../gateway/main.ts";
import { readPartsConfig } from "../local/control-plane/config.ts";
import { findEnvoy } from "../local/control-plane/engine-programs.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { addDaemonFlags, type DaemonFlags, userJwtSecretFileOption } from "./cluster/flags.ts";
import { createJsonLog } from "./program/json-log.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface GatewayFlags extends DaemonFlags {
  readonly envoy?: string;
  readonly [key: string]: unknown;
}

/** Options and action of the verb. */
export function configureGateway(command: Command): void {
  addDaemonFlags(command)
    .requiredOption("--dir <path>", "folder of the gateway: configuration and log of Envoy, sockets")
    .option(
      "--envoy <path>",
      'Envoy program, or "external" if another process runs it (default: found on PATH)',
    )
    .option("--address <ip>", "address for clients; without any key, loopback only (default: loopback)")
    .option("--port <n>", "port for clients (default: 4000)")
    .option(
      "--namespace <name>",
      "namespace with the Secrets of keys and the records of usage (default: metalbridge-system)",
    )
    .option("--keys-namespace <name>", "namespace with the Secrets of keys, if it is another one")
    .option("--service <name>", "Service of the gateways in that namespace, to share slots and limits")
    .option("--tls-cert <file>", "certificate chain (PEM) for clients (default: plain HTTP)")
    .option("--tls-key <file>", "private key (PEM) of --tls-cert")
    .option(
      "--upstream-ca <file>",
      "CA certificates (PEM) that verify replicas with spec.endpoint.tls (default: their services are refused)",
    )
    .option("--upstream-cert <file>", "certificate chain (PEM) that the gateway presents to these replicas")
    .option("--upstream-key <file>", "private key (PEM) of --upstream-cert")
    .option("--kubernetes-tokens", "accept tokens of Kubernetes users who may use inferenceservices/use")
    .option(
      "--user-limits <list>",
      "limits of each Kubernetes user, for example requestsPerMinute=60,tokensPerDay=1000000 (default: none)",
    )
    .option("--cors-origins <origin...>", "origins of browsers that may call the gateway (default: none)")
    .option("--max-body-bytes <n>", "largest body of a request (default: 32 MiB)")
    .option("--counters <url>", "Redis or Valkey that gateways share for limits, as redis://HOST:PORT")
    .option("--counters-file <file>", "file with the URL of --counters, for a URL with a password")
    .option(
      "--otlp-endpoint <url>",
      "OpenTelemetry collector for spans and metrics of requests, as http://HOST:4318",
    )
    .addOption(userJwtSecretFileOption())
    .option("--health-address <ip>", "address of /healthz, /readyz, /metrics and /queues (default: loopback)")
    .option(
      "--health-port <n>",
      "port of /healthz, /readyz, /metrics and /queues; 0 chooses a free port (default: 9468)",
    )
    .action(gateway);
}

async function gateway({
  logLevel,
  exitWithStdin,
  envoy = findEnvoy(readPartsConfig()),
  ...settings
}: GatewayFlags): Promise<void> {
  if (envoy === undefined) throw new MetalbridgeError("EnvoyNotInstalled", "the program envoy was not found");
  const config = parseGatewayConfig({ ...settings, envoy });
  const log = createJsonLog(logLevel);
  const { signal, again } = listenForStop({ exitWithStdin });
  await runGateway({ config, log, signal, hurry: again });
}
