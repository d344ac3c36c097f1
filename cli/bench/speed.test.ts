/** The speed of single requests, load and the report of a Job, measured on the real llama-server. */
import { readFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseBenchmarkReport, rateOf } from "../../src/capacity/benchmark/measurement.ts";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { type RunningServer, runLlamaServer } from "../../test/fixtures/run-llama-server.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { writeTinyGguf } from "../../test/fixtures/tiny-gguf.ts";
import { main } from "../main.ts";
import { runGuideLLM, scenarioOf } from "./guidellm.ts";
import { type BenchLoad, runStage } from "./measure.ts";
import { engineBuild, measureSpeed, speedOf } from "./speed.ts";
import type { StreamSample } from "./stream.ts";
import { parseUrl, urlTarget } from "./url.ts";

const program = findLlamaServer();
const { signal } = new AbortController();

describe.skipIf(program === undefined)("on llama-server", () => {
  const stack = new AsyncDisposableStack();
  let server: RunningServer;
  let folder: string;
  beforeAll(async () => {
    folder = stack.use(await temporaryFolder()).path;
    const model = path.join(folder, "tiny.gguf");
    // A prompt of 512 tokens fits, one of 4096 does not.
    await writeTinyGguf(model, { endless: true, contextLength: 2_048 });
    const args = [
      "--model",
      model,
      "--alias",
      "tiny",
      "--ctx-size",
      "2048",
      "--parallel",
      "1",
      "--threads",
      "1",
    ];
    server = stack.use(await runLlamaServer(program ?? "", args));
  });
  afterAll(() => stack.disposeAsync());

  const target = () => urlTarget(parseUrl(`${server.url}/v1/`), { signal });

  test("a single request is measured at depth 0 and at 512 tokens; a depth beyond the context is absent", async () => {
    const plan = { warmups: 1, runs: 2, tokens: 16 };
    const speed = await measureSpeed({ target: await target(), plan, signal });
    expect(speed.generation.samples).toHaveLength(2);
    expect(speed.prompt512?.samples).toHaveLength(2);
    expect(speed.generation.median).toBeGreaterThan(1);
    expect(speed.timeToFirstTokenSeconds).toBeGreaterThan(0);
    expect(speed).toMatchObject({ generationAt4096: undefined, prompt4096: undefined });
    expect(await engineBuild(await target(), signal)).toMatch(/^b\d+/);
  });

  test("runs end after the time limit, but not before the first", async () => {
    const plan = { warmups: 0, runs: 20, tokens: 16, minSeconds: 0 };
    const { generation } = await measureSpeed({ target: await target(), plan, signal });
    expect(generation.samples).toHaveLength(1);
  });

  test("a stage by clients and one by rate send fresh prompts and count the tokens of the server", async () => {
    const load: BenchLoad = {
      target: await target(),
      mode: "chat",
      requests: 6,
      durationMs: Number.POSITIVE_INFINITY,
      promptWords: 4,
      maxTokens: 8,
      ignoreEos: true,
      signal,
    };
    for (const stage of [{ concurrency: 2 }, { ratePerSecond: 50 }]) {
      const { samples, failures } = await runStage(load, stage);
      expect([...failures]).toEqual([]);
      expect(samples).toHaveLength(6);
      for (const sample of samples) expect(sample).toMatchObject({ isCounted: true, tokens: 8 });
      expect(new Set(samples.map(({ totalMs }) => totalMs)).size).toBe(6);
    }
    const { samples } = await runStage({ ...load, requests: 1_000, durationMs: 200 }, { concurrency: 1 });
    expect(samples.length).toBeLessThan(1_000);
  });

  test("bench-job leaves the result as a termination message, and the reason of a failure too", async () => {
    const result = path.join(folder, "message");
    const report = async () => parseBenchmarkReport(await readFile(result, "utf8"));
    const sizes = ["--warmups", "0", "--runs", "1", "--tokens", "8", "--size-bytes", "7", "--result", result];
    expect(await main(["bench-job", "--url", server.url, "--build", "b1", ...sizes])).toBe(0);
    expect(await report()).toMatchObject({ build: "b1", sizeBytes: 7, tool: "requests", generation: {} });
    expect(await main(["bench-job", "--url", `${server.url}/nowhere`, "--model", "tiny", ...sizes])).toBe(1);
    process.exitCode = undefined;
    expect(await report()).toMatchObject({ failed: expect.stringMatching(/answered 404/) });
  });
});

describe("without figures of the engine", () => {
  const sample: StreamSample = {
    totalMs: 1_000,
    firstMs: 200,
    gapsMs: [300, 500],
    isCounted: true,
    inputTokens: 512,
    tokens: 5,
  };
  const run = { generate: sample, prompt: { ...sample, gapsMs: [], tokens: 1 }, deep: undefined };

  test("generation is the tokens after the first by their time, and a prompt's speed its tokens by the time to the first", () => {
    expect(speedOf([run])).toMatchObject({
      generation: { median: 5 },
      prompt512: { median: 2_560 },
      timeToFirstTokenSeconds: 0.2,
    });
  });

  test("an engine that generates one token cannot be measured", () => {
    const one = { ...run, generate: run.prompt };
    expect(() => speedOf([one])).toThrow(expect.objectContaining({ code: "BenchmarkFailed" }));
  });
});

test("the median and the spread of samples", () => {
  expect(rateOf([])).toBeUndefined();
  expect(rateOf([3])).toEqual({ median: 3, spread: 0, samples: [3] });
  expect(rateOf([4, 2, 1, 3])).toEqual({ median: 2.5, spread: 3 / 2.5, samples: [4, 2, 1, 3] });
});

test.each([
  ["http://127.0.0.1:8080", { address: "127.0.0.1", port: 8080 }, "", false],
  ["https://gateway.example/team-a/v1/", { address: "gateway.example", port: 443 }, "/team-a", true],
  ["http://[fd00::1]:80/v1", { address: "fd00::1", port: 80 }, "", false],
])("%s is a server", async (text, endpoint, basePath, isTls) => {
  const target = await urlTarget(parseUrl(text), { model: "m", signal });
  expect(target).toMatchObject({ endpoints: [endpoint], basePath, model: "m" });
  expect(target.tls !== undefined).toBe(isTls);
});

test.each(["chat", "ftp://host/", "http://user:password@host/", "http://host/?key=1"])(
  "%s is not the URL of a server",
  (text) => {
    expect(() => parseUrl(text)).toThrow("It must be a URL");
  },
);

test("GuideLLM gets the same load, with the key in its file and not among its arguments, and chat alone", async () => {
  const load: BenchLoad = {
    target: { endpoints: [{ address: "10.0.0.1", port: 8080 }], model: "chat", apiKey: "k" },
    mode: "chat",
    requests: 32,
    durationMs: Number.POSITIVE_INFINITY,
    promptWords: 4,
    maxTokens: 8,
    ignoreEos: false,
    signal,
  };
  const stages = [{ concurrency: 1 }, { concurrency: 4 }];
  const run = { load, stages, slo: { ttft: 1_000 }, isJson: true };
  expect(scenarioOf(run, { address: "10.0.0.1", port: 8080 }, { prompts: "/p", report: "/r" })).toMatchObject(
    {
      spec: {
        backend: {
          kind: "openai_http",
          target: "http://10.0.0.1:8080",
          model: "chat",
          max_tokens: 8,
          api_key: "k",
        },
        profile: { kind: "concurrent" },
        constraints: [{ kind: "max_requests", count: 32 }],
        data: [{ kind: "text_file", path: "/p" }],
        outputs: [{ kind: "json", path: "/r" }],
        metrics: { slo: { ttft_ms: 1_000 } },
      },
    },
  );
  const embeddings = { ...run, load: { ...load, mode: "embedding" as const } };
  await expect(runGuideLLM(embeddings)).rejects.toThrow("the mode is embedding");
});
