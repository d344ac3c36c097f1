/** `metalbridge bench`: measures latency, throughput and goodput of a service or a server, by number of clients or rate. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { type Mode, modeSchema } from "../src/api/engine-settings.ts";
import { MetalbridgeError, remedyOf } from "../src/api/errors.ts";
import type { InferenceService } from "../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES } from "../src/api/kinds.ts";
import { noiseOf } from "../src/capacity/benchmark/measurement.ts";
import { runGuideLLM } from "./bench/guidellm.ts";
import { type BenchLoad, runStage, type Stage } from "./bench/measure.ts";
import { renderMarkdown, renderTable, reportOf, type SloLimits, type StageReport } from "./bench/report.ts";
import { submitResult } from "./bench/submit.ts";
import { parseUrl, urlTarget } from "./bench/url.ts";
import { type Cluster, withCluster } from "./cluster/cluster.ts";
import { findObject } from "./cluster/find.ts";
import {
  addNamespacedFlags,
  type ClusterFlags,
  countParser,
  durationParser,
  outputFlag,
  parseName,
  parseServiceName,
} from "./cluster/flags.ts";
import {
  addSecretFlags,
  type EndpointTarget,
  findEndpointTarget,
  readSecretFlags,
  type SecretFlags,
} from "./endpoint/target.ts";
import { exitCodes } from "./program/exit-codes.ts";
import { printJson, printNote, printResult } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface Flags extends ClusterFlags, SecretFlags {
  readonly concurrency: readonly number[];
  readonly rate?: readonly number[];
  readonly requests?: number;
  readonly duration?: number;
  readonly promptWords: number;
  readonly maxTokens: number;
  readonly ignoreEos?: boolean;
  readonly slo?: SloLimits;
  readonly host?: string;
  readonly model?: string;
  readonly mode?: Mode;
  readonly tool?: "guidellm";
  readonly submit?: string;
  readonly deviceClass?: string;
  readonly force?: boolean;
  readonly output: "text" | "json" | "markdown";
}

const REQUESTS = 32;

/** Options and action of the verb. */
export function configureBench(command: Command): void {
  addSecretFlags(addNamespacedFlags(command))
    .argument("<target>", "name of the InferenceService, or URL of a server with an OpenAI API", parseTarget)
    .option(
      "--concurrency <counts>",
      "numbers of concurrent clients, one stage for each",
      parseCounts,
      [1, 2, 4, 8],
    )
    .addOption(new Option("--clients <counts>", "same as --concurrency").argParser(parseCounts))
    .addOption(
      new Option("--rate <rates>", "requests per second instead of --concurrency, one stage for each")
        .argParser(parseRates)
        .conflicts(["concurrency", "clients"]),
    )
    .option(
      "--requests <n>",
      "number of requests in each stage (default: 32, or no limit with --duration)",
      countParser(1),
    )
    .option(
      "--duration <time>",
      "time after which a stage sends no further request, such as 60s",
      durationParser("1s", "24h"),
    )
    .option("--prompt-words <n>", "length of each prompt, in words", countParser(1), 128)
    .option("--max-tokens <n>", "maximum length of an answer, in tokens", countParser(1), 128)
    .option("--ignore-eos", "generate --max-tokens tokens in every answer, if the engine supports it")
    .option("--slo <limits>", "limits for goodput: ttft, tpot and e2e, such as ttft=1s,tpot=50ms", parseSlo)
    .option("--host <name>", "measure only the replicas on this host or node", parseName)
    .option(
      "--model <name>",
      "name of the model, with a URL (default: the first model that the server lists)",
    )
    .addOption(new Option("--mode <mode>", "API to measure, with a URL").choices(modeSchema.options))
    .addOption(
      new Option("--tool <tool>", "send the load with GuideLLM, which must be installed").choices([
        "guidellm",
      ]),
    )
    .addOption(
      new Option(
        "--submit <file>",
        "measure one replica without other load, and write a BenchmarkResult as YAML or JSON",
      ).conflicts(["tool", "rate", "concurrency", "clients", "requests", "duration", "slo"]),
    )
    .option("--device-class <class>", "class of the machine, with --submit (default: from its Host or Node)")
    .option("--force", "overwrite the file in --submit")
    .addOption(outputFlag("markdown"))
    .action((target: string | URL, flags: Flags & { readonly clients?: readonly number[] }) =>
      bench(target, flags.clients === undefined ? flags : { ...flags, concurrency: flags.clients }),
    );
}

function parseTarget(text: string): string | URL {
  return text.includes("://") ? parseUrl(text) : parseServiceName(text);
}

function parseCounts(text: string): readonly number[] {
  const counts = text.split(",").map((part) => (/^\d{1,4}$/.test(part) ? Number(part) : 0));
  if (counts.some((count) => count < 1))
    throw new InvalidArgumentError("It must be whole numbers such as 1,4,16.");
  return counts;
}

function parseRates(text: string): readonly number[] {
  const rates = text.split(",").map((part) => (/^\d{1,4}(\.\d{1,3})?$/.test(part) ? Number(part) : 0));
  if (rates.some((rate) => rate <= 0)) throw new InvalidArgumentError("It must be numbers such as 0.5,2,8.");
  return rates;
}

const parseLimit = durationParser("1ms", "1h");

function parseSlo(text: string): SloLimits {
  const parts = text.split(",").map((part) => /^(ttft|tpot|e2e)=(.+)$/.exec(part));
  if (parts.some((part) => part === null))
    throw new InvalidArgumentError("It must be limits such as ttft=1s,tpot=50ms,e2e=10s.");
  return Object.fromEntries(parts.map((part) => [part?.[1], parseLimit(part?.[2] ?? "")]));
}

async function bench(named: string | URL, flags: Flags): Promise<void> {
  const stop = listenForStop();
  const { signal } = stop;
  try {
    await run(named, flags, signal);
  } catch (error) {
    // An interrupt ends the requests with an error of their own.
    if (!signal.aborted) throw error;
  }
  process.exitCode ||= stop.exitCode();
}

async function run(named: string | URL, flags: Flags, signal: AbortSignal): Promise<void> {
  if (named instanceof URL) {
    if (flags.submit !== undefined)
      throw new MetalbridgeError(
        "BenchSubmitFailed",
        "--submit needs a service, whose Model and machine it records",
      );
    const target = await urlTarget(named, { ...(await readSecretFlags(flags)), model: flags.model, signal });
    await sendLoad(loadOf(flags, target, flags.mode, signal), flags);
  } else
    await withCluster("bench", flags, async (cluster) => {
      const service = await findObject(cluster, INFERENCE_SERVICES, named);
      const all = await findEndpointTarget(cluster, service, flags, signal);
      const target = onMachine(all, service, flags.host);
      if (flags.submit === undefined) await sendLoad(loadOf(flags, target, service.spec.mode, signal), flags);
      else await submit(cluster, service, { ...flags, submit: flags.submit }, { target, signal });
    });
}

/** Throws NoReadyEndpoint. */
function onMachine(
  target: EndpointTarget,
  { metadata }: InferenceService,
  name: string | undefined,
): EndpointTarget {
  if (name === undefined) return target;
  const endpoints = target.endpoints.filter(({ machine }) => machine?.name === name);
  if (endpoints.length === 0)
    throw new MetalbridgeError(
      "NoReadyEndpoint",
      `service ${metadata.name} has no ready endpoint on ${name}`,
      remedyOf("NoReadyEndpoint", { service: `${metadata.name} -n ${metadata.namespace ?? "default"}` }),
    );
  return { ...target, endpoints };
}

function loadOf(flags: Flags, target: EndpointTarget, mode: Mode = "chat", signal: AbortSignal): BenchLoad {
  const { requests, duration, promptWords, maxTokens, ignoreEos = false } = flags;
  return {
    target,
    mode,
    signal,
    promptWords,
    maxTokens,
    ignoreEos,
    requests: requests ?? (duration === undefined ? REQUESTS : Number.POSITIVE_INFINITY),
    durationMs: duration ?? Number.POSITIVE_INFINITY,
  };
}

async function sendLoad(load: BenchLoad, flags: Flags): Promise<void> {
  const { rate, concurrency, slo, output, tool } = flags;
  const stages: readonly Stage[] =
    rate?.map((ratePerSecond) => ({ ratePerSecond })) ?? concurrency.map((count) => ({ concurrency: count }));
  if (tool === "guidellm") return runGuideLLM({ load, stages, slo, isJson: output === "json" });
  const reports = await measure(load, stages, slo);
  if (reports.length > 0) printResult(output, reports, output === "markdown" ? renderMarkdown : renderTable);
  if (reports.some(({ failed }) => failed > 0)) process.exitCode = exitCodes.failed;
}

/** Sends one request to each endpoint first, to warm it up. An interrupt ends the measurement early. */
async function measure(
  load: BenchLoad,
  stages: readonly Stage[],
  slo?: SloLimits,
): Promise<readonly StageReport[]> {
  const endpoints = load.target.endpoints.length;
  const reports: StageReport[] = [];
  try {
    printNote(`warming up ${load.target.model}: ${endpoints} ${endpoints === 1 ? "endpoint" : "endpoints"}`);
    const warmUp = await runStage({ ...load, requests: endpoints }, { concurrency: endpoints });
    if (warmUp.samples.some(({ isCounted }) => !isCounted))
      printNote("the server reports no token counts, so each piece of an answer counts as one token");
    for (const stage of stages) {
      const run = await runStage(load, stage);
      if (load.signal.aborted) break;
      for (const [message, times] of run.failures) printNote(`${times} failed: ${message}`);
      reports.push(reportOf(run, slo));
    }
  } catch (error) {
    if (!load.signal.aborted) throw error;
  }
  return reports;
}

async function submit(
  cluster: Cluster,
  service: InferenceService,
  { submit: file, deviceClass, force = false }: Flags & { readonly submit: string },
  { target, signal }: { readonly target: EndpointTarget; readonly signal: AbortSignal },
): Promise<void> {
  const [endpoint] = target.endpoints;
  const machine = endpoint?.machine;
  if (endpoint === undefined || machine === undefined)
    throw new MetalbridgeError(
      "BenchSubmitFailed",
      `the endpoint of ${service.metadata.name} names no host or node`,
    );
  printNote(`measuring ${service.metadata.name} on ${machine.name}`);
  const one = { ...target, endpoints: [endpoint] };
  const submission = { file, service, target: one, machine, deviceClass, force, signal };
  const result = await submitResult(cluster, submission);
  printJson(result);
  printNote(`wrote ${file}`);
  const noise = noiseOf(result);
  if (noise !== undefined) printNote(`a controller will not use it: ${noise}`);
}
