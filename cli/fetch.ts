/** `metalbridge fetch`: brings a model to a volume; the command of download Jobs and of init containers. */

import { writeFileSync } from "node:fs";
import { type Command, Option } from "commander";
import { readSourceCredentials } from "../agent/config/source-credentials.ts";
import { fetchToVolume } from "../agent/store/volume.ts";
import { formatSchema, type ModelFormat } from "../src/api/fields/shared.ts";
import { systemClock } from "../src/kube/system-clock.ts";
import { isFetched, renderFetchResult } from "../src/models/fetch-result.ts";
import { exitCodes } from "./program/exit-codes.ts";
import { createJsonLog } from "./program/json-log.ts";
import { writeOut } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface FetchFlags {
  readonly to: string;
  readonly folder: string;
  readonly link?: string;
  readonly makeRoom?: boolean;
  readonly file?: readonly string[];
  readonly mmproj?: string;
  readonly sha256?: string;
  readonly quantization?: string;
  readonly format?: ModelFormat;
  readonly revision?: string;
  readonly result?: string;
  readonly ca?: string;
  readonly hfEndpoint: string;
  readonly ollamaRegistry?: string;
  readonly allowLoopback?: boolean;
  readonly allowPrivate?: boolean;
  readonly allowNetwork?: readonly string[];
}

/** Options and action of the verb. */
export function configureFetch(command: Command): void {
  command
    .argument(
      "<source>",
      "hf://org/repo[/file][@revision], https://…, oci://registry/repository:tag, ollama://name:tag, or file:///… on the volume, in place",
    )
    .requiredOption("--to <folder>", "where the volume is mounted")
    .option("--folder <name>", "folder on the volume; none for a file:// source", "")
    .option("--link <name>", "further name in the folder for what was fetched, known beforehand")
    .option("--make-room", "remove other downloads from the folder where the disk would be full")
    .option("--file <name...>", "files to fetch, the main file first")
    .option("--mmproj <name>", "projector file of the same source")
    .option("--sha256 <hex>", "checksum of the main file")
    .option("--quantization <name>", "quantization to choose, for example Q4_K_M")
    .addOption(new Option("--format <name>", "format of the weights").choices(formatSchema.options))
    .option("--revision <commit>", "commit or digest to fetch instead of the source's own revision")
    .option("--result <file>", "write the result there as JSON of at most 4096 bytes")
    .option("--ca <file>", "trust the authorities of this PEM file too")
    .option("--hf-endpoint <url>", "Hugging Face endpoint or mirror", "https://huggingface.co")
    .option("--ollama-registry <url>", "registry of ollama:// sources (default: Ollama's own)")
    .option("--allow-loopback", "allow sources on this machine's loopback")
    .option("--allow-private", "allow sources in any private network")
    .option("--allow-network <cidr...>", "allow sources in these private networks")
    .action(fetchModel);
}

/** Shorter than people wait, longer than the API server minds. */
const PROGRESS_MS = 2_000;

async function fetchModel(source: string, flags: FetchFlags): Promise<void> {
  const { to, folder, file, mmproj, sha256, quantization, format, revision } = flags;
  const stop = listenForStop();
  const request = { source, files: file, mmproj, sha256, quantization, format, revision };
  const result = await fetchToVolume({
    volume: to,
    folder,
    link: flags.link,
    makesRoom: flags.makeRoom,
    request: { ...request, credentials: readSourceCredentials() },
    certificates: flags.ca,
    clock: systemClock,
    log: createJsonLog("info"),
    signal: stop.signal,
    onProgress: printProgress(),
    hfEndpoint: flags.hfEndpoint,
    ollamaRegistry: flags.ollamaRegistry,
    allowLoopback: flags.allowLoopback ?? false,
    allowPrivate: flags.allowPrivate ?? false,
    allowedNetworks: flags.allowNetwork,
  });
  const text = renderFetchResult(result);
  if (flags.result !== undefined) writeFileSync(flags.result, text);
  writeOut(`${text}\n`);
  if (isFetched(result)) return;
  process.exitCode = result.isRetryable ? exitCodes.retryable : exitCodes.failed;
}

/** A JSON line with `bytes` and `totalBytes`, at most every two seconds. */
function printProgress(): Parameters<typeof fetchToVolume>[0]["onProgress"] {
  let nextMs = 0;
  return ({ bytes, totalBytes }) => {
    const nowMs = performance.now();
    if (nowMs < nextMs && bytes !== totalBytes) return;
    nextMs = nowMs + PROGRESS_MS;
    writeOut(`${JSON.stringify({ bytes, totalBytes })}\n`);
  };
}
