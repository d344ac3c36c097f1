/** `metalbridge node`: publishes what a node of the cluster has, for placement and the density API. */

import { writeFile } from "node:fs/promises";
import { type Command, Option } from "commander";
import { parseNodeConfig } from "../agent/node/config.ts";
import { readAsProbe, readNodeOnce, runNode } from "../agent/node/main.ts";
import { catalogOption, readCatalogFiles } from "./catalog/read.ts";
import { addDaemonFlags, type DaemonFlags, durationParser } from "./cluster/flags.ts";
import { createJsonLog } from "./program/json-log.ts";
import { printJson, printLine } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface NodeFlags extends DaemonFlags {
  readonly catalog?: readonly string[];
  readonly print?: boolean;
  readonly probeTo?: string;
  readonly [key: string]: unknown;
}

/** Options and action of the verb. */
export function configureNode(command: Command): void {
  addDaemonFlags(command)
    .option("--node-name <name>", "name of the Node of this machine (default: its host name in lowercase)")
    .option("--namespace <name>", "namespace of the published report (default: metalbridge-system)")
    .option("--host-root <folder>", "folder with the machine's proc, sys, dev and run/udev (default: /)")
    .option("--model-folder <path...>", "additional folders with models")
    .option("--ollama <host:port>", "address of Ollama on this machine (default: 127.0.0.1:11434)")
    .addOption(
      new Option(
        "--interval <duration>",
        "interval between readings of the machine, for example 30s or 1m; a number is in seconds (default: 30s)",
      ).argParser(interval),
    )
    .option("--flexinfer-metric-names", "also export metrics under their names in FlexInfer")
    .option("--metrics-port <n>", "serve /metrics on this port; 0 chooses a free port (default: disabled)")
    .option("--metrics-address <ip>", "address of /metrics (default: 127.0.0.1)")
    .option(
      "--llmfit-port <n>",
      "serve the REST API of llmfit on this port; 0 chooses a free port (default: disabled)",
    )
    .option(
      "--llmfit-address <ip>",
      "address of the llmfit API; any but loopback requires --llmfit-token-file",
    )
    .option("--llmfit-token-file <file>", "file with the bearer token that the llmfit API requires")
    .addOption(catalogOption())
    .option("--print", "print the report once, without a cluster")
    .option(
      "--probe-to <file>",
      "used by probe pods: write the report of the node to a file once, without a cluster",
    )
    .action(node);
}

function interval(text: string): number {
  return durationParser("5s", "1h")(/^\d{1,4}$/.test(text) ? `${text}s` : text) / 1_000;
}

async function node({ catalog, logLevel, exitWithStdin, print, probeTo, ...settings }: NodeFlags) {
  if (probeTo !== undefined) {
    const answer = await readAsProbe();
    printLine(answer);
    return writeFile(probeTo, answer);
  }
  const config = parseNodeConfig(settings);
  if (print === true) {
    printJson(await readNodeOnce(config));
    return;
  }
  const { signal } = listenForStop({ exitWithStdin });
  await runNode({
    config,
    log: createJsonLog(logLevel),
    signal,
    records: async () => (await readCatalogFiles(catalog)).records,
  });
}
