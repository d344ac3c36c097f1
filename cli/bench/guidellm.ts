/** `metalbridge bench --tool guidellm`: GuideLLM sends the load and prints its own report. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { type ServerEndpoint, urlOf } from "../endpoint/target.ts";
import { printNote, writeOut } from "../program/output.ts";
import type { BenchLoad, Stage } from "./measure.ts";
import type { SloLimits } from "./report.ts";
import { freshPrompt } from "./stream.ts";

export interface GuideLLMRun {
  readonly load: BenchLoad;
  readonly stages: readonly Stage[];
  readonly slo?: SloLimits | undefined;
  readonly isJson: boolean;
}

const PROMPTS_MAX = 10_000;

/** Throws BenchToolFailed if GuideLLM is not installed or fails. */
export async function runGuideLLM(run: GuideLLMRun): Promise<void> {
  const { load, isJson } = run;
  if (load.mode !== "chat")
    throw new MetalbridgeError(
      "BenchToolFailed",
      `GuideLLM measures mode chat, and the mode is ${load.mode}`,
      {
        summary: "measure without --tool",
      },
    );
  const { endpoints, tls } = load.target;
  const [endpoint] = endpoints;
  if (endpoint === undefined) throw new Error("a target without an endpoint");
  if (tls !== undefined && (tls.ca !== undefined || tls.servername !== endpoint.address))
    throw new MetalbridgeError("BenchToolFailed", "GuideLLM cannot verify this server's certificate", {
      summary: "pass an https:// URL, with SSL_CERT_FILE instead of --ca-file, or measure without --tool",
    });
  // The scenario contains the API key.
  const folder = await mkdtemp(path.join(tmpdir(), "metalbridge-bench-"));
  try {
    const files = { prompts: path.join(folder, "prompts.txt"), report: path.join(folder, "report.json") };
    const scenario = path.join(folder, "scenario.json");
    const count = Math.min(PROMPTS_MAX, load.requests * run.stages.length);
    const prompts = Array.from({ length: count }, () => freshPrompt(load.promptWords));
    await writeFile(files.prompts, `${prompts.join("\n")}\n`);
    await writeFile(scenario, JSON.stringify(scenarioOf(run, endpoint, files)), { mode: 0o600 });
    const others = endpoints.length > 1 ? `, one of ${endpoints.length} endpoints` : "";
    printNote(`running GuideLLM on ${urlOf(load.target, endpoint)}${others}`);
    await execute(["run", "-c", scenario, "--disable-progress"], run);
    if (isJson) writeOut(await readFile(files.report, "utf8"));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The configuration of GuideLLM 0.8. Pure. */
export function scenarioOf(
  { load, stages, slo, isJson }: GuideLLMRun,
  endpoint: ServerEndpoint,
  files: { readonly prompts: string; readonly report: string },
) {
  const { target, requests, durationMs, maxTokens, ignoreEos } = load;
  const benchmarks = stages.map((stage) =>
    "concurrency" in stage
      ? { "profile.streams": stage.concurrency }
      : { "profile.rate": stage.ratePerSecond },
  );
  const hasRate = stages.some((stage) => "ratePerSecond" in stage);
  const limits = [
    { kind: "max_requests", count: requests },
    { kind: "max_duration", seconds: durationMs / 1_000 },
  ].filter(({ count, seconds }) => Number.isFinite(count ?? seconds));
  return {
    benchmarks,
    spec: {
      backend: {
        kind: "openai_http",
        target: urlOf(target, endpoint),
        model: target.model,
        max_tokens: maxTokens,
        api_key: target.apiKey,
        verify: true,
        extras: ignoreEos ? { body: { ignore_eos: true } } : undefined,
      },
      profile: { kind: hasRate ? "poisson" : "concurrent" },
      constraints: limits,
      data: [{ kind: "text_file", path: files.prompts }],
      outputs: [isJson ? { kind: "json", path: files.report } : { kind: "console" }],
      metrics: slo && {
        kind: "generative",
        slo: { ttft_ms: slo.ttft, tpot_ms: slo.tpot, e2el_ms: slo.e2e },
      },
    },
  };
}

async function execute(args: readonly string[], { load: { signal }, isJson }: GuideLLMRun): Promise<void> {
  const child = spawn("guidellm", args, {
    stdio: ["ignore", isJson ? "ignore" : "inherit", "inherit"],
    signal,
  });
  try {
    const [code, by] = (await once(child, "close")) as [number | null, string | null];
    if (code !== 0) throw new MetalbridgeError("BenchToolFailed", `guidellm ended with ${code ?? by}`);
  } catch (error) {
    if (error instanceof MetalbridgeError) throw error;
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    throw new MetalbridgeError("BenchToolFailed", "guidellm is not on PATH", undefined, { cause: error });
  }
}
