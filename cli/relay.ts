/** `metalbridge relay`: runs the relay with its Envoy in the foreground, inside or outside the cluster. */
import type { Command } from "commander";
import { parseRelayConfig } from "../gateway/relay/config.ts";
import { runRelay } from "../gateway/relay/main.ts";
import { readPartsConfig } from "../local/control-plane/config.ts";
import { findEnvoy } from "../local/control-plane/engine-programs.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { addDaemonFlags, type DaemonFlags } from "./cluster/flags.ts";
import { createJsonLog } from "./program/json-log.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface RelayFlags extends DaemonFlags {
  readonly envoy?: string;
  readonly [key: string]: unknown;
}

/** Options and action of the verb. */
export function configureRelay(command: Command): void {
  addDaemonFlags(command)
    .requiredOption("--dir <path>", "folder of the relay: configuration of Envoy, sockets")
    .option(
      "--envoy <path>",
      'Envoy program, or "external" if another process runs it (default: found on PATH)',
    )
    .option("--address <ip>", "address on which each service has its port (default: loopback)")
    .option(
      "--namespace <name>",
      "namespace of the Secret with the certificate that hosts accept (default: metalbridge-system)",
    )
    .option("--health-address <ip>", "address of /healthz, /readyz and /metrics (default: loopback)")
    .option(
      "--health-port <n>",
      "port of /healthz, /readyz and /metrics; 0 chooses a free port (default: 9469)",
    )
    .action(relay);
}

async function relay({
  logLevel,
  exitWithStdin,
  envoy = findEnvoy(readPartsConfig()),
  ...settings
}: RelayFlags): Promise<void> {
  if (envoy === undefined) throw new MetalbridgeError("EnvoyNotInstalled", "the program envoy was not found");
  const config = parseRelayConfig({ ...settings, envoy });
  const log = createJsonLog(logLevel);
  const { signal, again } = listenForStop({ exitWithStdin });
  await runRelay({ config, log, signal, hurry: again });
}
