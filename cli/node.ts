/** `metalbridge node`: what a node of the cluster has, for placement and the density API. */

import { type Command, Option } from "commander";
import { parseNodeConfig } from "../agent/node/config.ts";
import { readNodeOnce, runNode } from "../agent/node/main.ts";
import { catalogOption, readCatalogFiles } from "./catalog/read.ts";
import { createJsonLog, LOG_LEVELS } from "./program/json-log.ts";
import { writeOut } from "./program/output.ts";
import { whenStdinEnds } from "./program/stdin-lifetime.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface NodeFlags {
  readonly catalog?: readonly string[];
  readonly logLevel: string;
  readonly exitWithStdin?: boolean;
  readonly print?: boolean;
  readonly [key: string]: unknown;
}

/** Options and action of the verb. */
export function configureNode(command: Command): void {
  command
    .option(
      "--kubeconfig <file>",
      "how to reach the cluster (default: KUBECONFIG, ~/.kube/config, the pod's ServiceAccount)",
    )
    .option("--context <name>", "context of the kubeconfig")
    .option(
      "--node-name <name>",
      "name of the Node object of this machine (default: its host name in lower case)",
    )
    .option("--namespace <name>", "where the report is published (default: metalbridge-system)")
    .option("--host-root <folder>", "where proc, sys, dev and run/udev of the machine are (default: /)")
    .option("--model-folder <path...>", "more folders with models")
    .option("--ollama <host:port>", "where this machine's Ollama answers (default: 127.0.0.1:11434)")
    .option("--interval <seconds>", "how often the machine is read (default: 60)")
    .option("--llmfit-port <n>", "answer llmfit's REST API on this port; 0 takes a free one (default: off)")
    .option("--llmfit-address <ip>", "its address; any but loopback needs --llmfit-token-file")
    .option("--llmfit-token-file <file>", "bearer token that it requires")
    .addOption(catalogOption())
    .option("--print", "print what is found, once, without a cluster")
    .addOption(new Option("--log-level <level>", "log level").choices([...LOG_LEVELS]).default("info"))
    .addOption(new Option("--exit-with-stdin").hideHelp())
    .action(node);
}

async function node({ catalog, logLevel, exitWithStdin, print, ...settings }: NodeFlags): Promise<void> {
  const config = parseNodeConfig(settings);
  if (print === true) {
    writeOut(`${JSON.stringify(await readNodeOnce(config), undefined, 2)}\n`);
    return;
  }
  const stop = listenForStop();
  if (exitWithStdin === true) whenStdinEnds(stop.stop);
  await runNode({
    config,
    log: createJsonLog(logLevel),
    signal: stop.signal,
    records: async () => (await readCatalogFiles(catalog)).records,
  });
}
