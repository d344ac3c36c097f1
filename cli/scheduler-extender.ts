/** `metalbridge scheduler-extender`: runs the extender of kube-scheduler in the foreground, inside or outside the cluster. */
import type { Command } from "commander";
import { parseExtenderConfig } from "../server/extender/config.ts";
import { runExtender } from "../server/extender/main.ts";
import { addDaemonFlags, type DaemonFlags } from "./cluster/flags.ts";
import { createJsonLog } from "./program/json-log.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface ExtenderFlags extends DaemonFlags {
  readonly [key: string]: unknown;
}

/** Options and action of the verb. */
export function configureSchedulerExtender(command: Command): void {
  addDaemonFlags(command)
    .option("--address <ip>", "address that schedulers connect to (default: loopback)")
    .option("--port <n>", "port that schedulers connect to; 0 chooses a free port (default: 8443)")
    .option("--tls-cert <file>", "certificate chain (PEM); required without --insecure-listen")
    .option("--tls-key <file>", "private key (PEM) of the certificate")
    .option("--insecure-listen", "serve plain HTTP, only on a loopback address")
    .option("--health-address <ip>", "address of /healthz, /readyz and /metrics (default: loopback)")
    .option(
      "--health-port <n>",
      "port of /healthz, /readyz and /metrics; 0 chooses a free port (default: 9464)",
    )
    .option(
      "--score-weights <pairs>",
      "weights of the score of machines (default: tps=0.7,utilization=0.2,cost=0.1)",
    )
    .action(schedulerExtender);
}

async function schedulerExtender({ logLevel, exitWithStdin, ...settings }: ExtenderFlags): Promise<void> {
  const config = parseExtenderConfig(settings);
  const { signal } = listenForStop({ exitWithStdin });
  await runExtender({ config, log: createJsonLog(logLevel), signal });
}
