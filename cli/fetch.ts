/** `metalbridge fetch`: downloads a model to a volume. Download Jobs and init containers run it. */

import { writeFileSync } from "node:fs";
import type { Command } from "commander";
import { readSourceCredentials } from "../agent/config/environment.ts";
import { fetchToVolume } from "../agent/store/volume.ts";
import { systemClock } from "../src/kube/system-clock.ts";
import { isFetched, renderFetchResult } from "../src/models/fetch-result.ts";
import { addSourceFlags, type SourceFlags } from "./models/source-flags.ts";
import { exitCodes } from "./program/exit-codes.ts";
import { createJsonLog } from "./program/json-log.ts";
import { printLine } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface FetchFlags extends SourceFlags {
  readonly to: string;
  readonly folder: string;
  readonly link?: string;
  readonly makeRoom?: boolean;
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
  addSourceFlags(command)
    .argument(
      "<source>",
      "hf://org/repo[/file][@revision], https://…, oci://registry/repository:tag, ollama://name:tag, or file:///… on the volume, in place",
    )
    .requiredOption("--to <folder>", "mount point of the volume")
    .option("--folder <name>", "folder on the volume; unused for a file:// source", "")
    .option("--link <name>", "additional name in the folder for the downloaded model")
    .option("--make-room", "remove other downloads from the folder if the disk would become full")
    .option("--revision <commit>", "commit or digest to download instead of the revision in the source")
    .option("--result <file>", "write the result to this file, as JSON of at most 4096 bytes")
    .option("--ca <file>", "PEM file with additional certificate authorities to trust")
    .option("--hf-endpoint <url>", "Hugging Face endpoint or mirror", "https://huggingface.co")
    .option("--ollama-registry <url>", "registry of ollama:// sources (default: the Ollama registry)")
    .option("--allow-loopback", "allow sources on the loopback address of this machine")
    .option("--allow-private", "allow sources in any private network")
    .option("--allow-network <cidr...>", "allow sources in these private networks")
    .action(fetchModel);
}

/** Interval of the progress lines: a compromise between a responsive status and the load on the API server. */
const PROGRESS_MS = 2_000;

async function fetchModel(source: string, flags: FetchFlags): Promise<void> {
  const { to, folder, file, ignore, mmproj, sha256, quantization, format, revision } = flags;
  const stop = listenForStop();
  const chosen = { files: file, ignorePatterns: ignore, mmproj, quantization };
  const request = { source, ...chosen, sha256, format, revision };
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
  printLine(text);
  if (isFetched(result)) return;
  process.exitCode = result.isRetryable ? exitCodes.retryable : exitCodes.failed;
}

/** Prints a JSON line with `bytes` and `totalBytes`, at most every two seconds. */
function printProgress(): Parameters<typeof fetchToVolume>[0]["onProgress"] {
  let nextMs = 0;
  return ({ bytes, totalBytes }) => {
    const nowMs = performance.now();
    if (nowMs < nextMs && bytes !== totalBytes) return;
    nextMs = nowMs + PROGRESS_MS;
    printLine(JSON.stringify({ bytes, totalBytes }));
  };
}
