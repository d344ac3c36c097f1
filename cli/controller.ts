/** `metalbridge controller`: the controller in the foreground, in the cluster or beside it. */
import { type Command, Option } from "commander";
import { parseControllerConfig } from "../controller/config.ts";
import { runController } from "../controller/main.ts";
import { createJsonLog, LOG_LEVELS } from "./program/json-log.ts";
import { whenStdinEnds } from "./program/stdin-lifetime.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface ControllerFlags {
  readonly logLevel: string;
  readonly exitWithStdin?: boolean;
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
    .option("--identity <name>", "name in the leader election (default: host name and process id)")
    .option("--health-address <ip>", "where /healthz, /readyz and /metrics listen (default: loopback)")
    .option("--health-port <n>", "their port; 0 takes a free one (default: 9464)")
    .option("--lease-duration-seconds <n>", "how long leadership lasts without a renewal (default: 15)")
    .option(
      "--lease-renew-deadline-seconds <n>",
      "when a leader that cannot renew stops leading (default: 10)",
    )
    .option("--lease-retry-seconds <n>", "how often the Lease is renewed, or tried for (default: 2)")
    .option("--hf-endpoint <url>", "the Hugging Face hub or a mirror of it")
    .option("--allow-loopback", "sources may lead to this machine's loopback")
    .option("--no-allow-private", "sources may not lead to private networks")
    .option(
      "--stall-ms <n>",
      "without a byte for so long a source's server counts as stalled (default: 15000)",
    )
    .option("--look-ms <n>", "reading the header of a source may take so long in all (default: 60000)")
    .option("--max-header-bytes <n>", "the header of a source may be so long (default: 134217728)")
    .addOption(new Option("--log-level <level>", "how much to log").choices([...LOG_LEVELS]).default("info"))
    .option("--exit-with-stdin", "end when standard input ends")
    .action(controller);
}

async function controller({ logLevel, exitWithStdin, ...settings }: ControllerFlags): Promise<void> {
  const config = parseControllerConfig(settings);
  const stop = listenForStop();
  if (exitWithStdin === true) whenStdinEnds(stop.stop);
  await runController({ config, log: createJsonLog(logLevel), signal: stop.signal });
}
