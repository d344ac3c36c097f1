import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { until } from "../test/bed/until.ts";
import { runVerb, startProgram } from "../test/cli/program.ts";
import { serveModel } from "../test/fixtures/model-server.ts";

const run = (...args: string[]) => runVerb(args);

test("the catalog is searched and shown, and its own records do not contradict themselves", async () => {
  const search = await run("catalog", "search", "qwen2.5", "coder", "-o", "wide");
  expect(search.stdout.trim().split("\n")).toHaveLength(7);
  expect(await run("catalog", "show", "Qwen2.5-7B")).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^Qwen\/Qwen2\.5-7B-Instruct\n[\s\S]*Q4_K_M +4\.4 GiB +published/),
  });
  expect(await run("catalog", "check")).toMatchObject({ code: 0, stdout: "no contradictions\n" });
});

test("a name that means several models lists them, and none of another purpose", async () => {
  const { code, stderr } = await run("catalog", "show", "Qwen2.5");
  expect(code).toBe(1);
  expect(stderr).toMatch(/^CatalogModelUnknown: Qwen2\.5 means several models: .*Qwen2\.5-72B-Instruct/);
  expect(stderr).not.toContain("Coder");
  expect(await run("catalog", "show", "Quen3-8B")).toMatchObject({
    stderr: expect.stringContaining("nearest are"),
  });
});

test("records of the user's own replace ours, and bad ones are named", async () => {
  const folder = await mkdtemp(path.join(tmpdir(), "catalog-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = path.join(folder, "mine.json");
  const mine = {
    provider: "me",
    parameter_count: "1B",
    context_length: 100,
    use_case: "chat",
    quantization: "Q8_0",
  };
  await writeFile(
    file,
    JSON.stringify([
      { ...mine, name: "me/tiny" },
      { ...mine, name: "me/bad", context_length: "x" },
    ]),
  );
  expect(await run("catalog", "show", "me/tiny", "--catalog", file, "-o", "json")).toMatchObject({ code: 0 });
  const check = await run("catalog", "check", "--catalog", file);
  expect(check).toMatchObject({ code: 1, stdout: expect.stringMatching(/^me\/bad: context_length: /) });
  expect(await run("catalog", "list", "--catalog", "/nonexistent")).toMatchObject({
    stderr: expect.stringMatching(/^CatalogUnreadable: /),
  });
});

test("models are ranked for a machine that is described, with its figures and their basis", async () => {
  const { stdout } = await run(
    "fit",
    "--memory",
    "24Gi",
    "--chip",
    "M4 Pro",
    "--use-case",
    "coding",
    "--limit",
    "3",
    "-o",
    "json",
  );
  const answer = JSON.parse(stdout) as { machine: object; models: { tokensPerSecond: { basis: string } }[] };
  expect(answer.machine).toMatchObject({ bandwidthGBs: 273, basis: "calibrated" });
  expect(answer.models).toHaveLength(3);
  const table = await run(
    "fit",
    "--memory",
    "24Gi",
    "--chip",
    "M4 Pro",
    "--min-fit",
    "perfect",
    "--quantization",
    "q4_k_m",
  );
  expect(table.stdout).toMatch(/^M4 Pro with 24Gi: M4 Pro, 16\.1 GiB for engines, 273 GB\/s\n/);
  expect(table.stdout).not.toMatch(/marginal|good|Q8_0/);
  expect(await run("fit", "--memory", "1Mi", "--chip", "M4")).toMatchObject({
    code: 1,
    stdout: expect.stringContaining("no model fits"),
  });
});

test("with --compat llmfit its numbers come out", async () => {
  const args = [
    "fit",
    "--compat",
    "llmfit",
    "--memory",
    "8Gi",
    "--chip",
    "M1",
    "--limit",
    "300",
    "-o",
    "json",
  ];
  const { models } = JSON.parse((await run(...args)).stdout) as { models: { name: string }[] };
  expect(models.find(({ name }) => name === "Qwen/Qwen3-8B")).toMatchObject({
    memory_required_gb: 6.13,
    fit_level: "perfect",
    best_quant: "mlx-4bit",
  });
});

test.each([
  [["--memory", "-32Gi"], /MachineUnusable: .*is no size|MachineUnusable: .*must be a size/, 1],
  [["--memory", "nonsense"], /MachineUnusable: --memory nonsense must be a size/, 1],
  [["--memory", "1000000Ti"], /MachineUnusable: .* is not a valid memory size/, 1],
  [["--chip", "M4"], /MachineUnusable: --memory is missing/, 1],
  [["--quantization", "Q9_Z"], /must be one of .*Q4_K_M/, 2],
  [["--use-case", "magic"], /Allowed choices are general/, 2],
  [["--min-fit", "great"], /Allowed choices are perfect/, 2],
  [["--limit", "0"], /at least 1/, 2],
  [["--draft", "no such"], /metalbridge catalog search no such/, 1],
  [["--catalog", "/none.jsonl"], /metalbridge catalog check --catalog \/none\.jsonl/, 1],
  [["--cache-type", "q9"], /Allowed choices are/, 2],
])("fit %j is refused with the reason", async (args, expected, code) => {
  expect(await run("fit", ...args)).toMatchObject({ code, stderr: expect.stringMatching(expected) });
});

/** A server in the Hub's shape; what it does not have is 404, and the rest is asked for with a token. */
async function serveHub(answers: Readonly<Record<string, unknown>>): Promise<string> {
  const server = await serveModel((request, response) => {
    const answer = answers[(request.url ?? "").replace("?blobs=true", "")];
    if (request.headers.authorization !== "Bearer mine") return void response.writeHead(401).end();
    if (answer === undefined) return void response.writeHead(404).end();
    response.end(typeof answer === "string" ? answer : JSON.stringify(answer));
  });
  return server.url;
}

test("models of the Hub are added to a file of the user's, and those that it has are brought up to date", async () => {
  const folder = await mkdtemp(path.join(tmpdir(), "catalog-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const [file, token] = [path.join(folder, "mine.jsonl"), path.join(folder, "token")];
  await writeFile(token, "mine\n");
  const config = {
    model_type: "llama",
    num_hidden_layers: 32,
    hidden_size: 4096,
    num_attention_heads: 32,
    num_key_value_heads: 8,
    intermediate_size: 14_336,
    vocab_size: 128_256,
    head_dim: null,
    sliding_window: 4096,
    use_sliding_window: false,
    max_position_embeddings: 8192,
  };
  const sizes = {
    "mine-Q8_0.gguf": 8.54e9,
    "mine-Q4_K_M-00001-of-00002.gguf": 4e9,
    "mine-Q4_K_M-00002-of-00002.gguf": 0.92e9,
  };
  const siblings = (of: object) => Object.entries(of).map(([rfilename, size]) => ({ rfilename, size }));
  const answers: Record<string, unknown> = {
    "/api/models/me/mine": {
      id: "me/mine",
      sha: "c".repeat(40),
      createdAt: "2026-01-02T03:04:05.000Z",
      cardData: { license: "mit" },
      safetensors: { total: 8_030_261_248 },
    },
    [`/me/mine/resolve/${"c".repeat(40)}/config.json`]: config,
    "/api/models/me/mine-GGUF": {
      id: "me/mine-GGUF",
      siblings: siblings({ ...sizes, "mmproj-F16.gguf": 1e9, "a-Q6_K.gguf": 6.6e9, "b-Q6_K.gguf": 6.7e9 }),
    },
    "/api/models/me/html": "<html>",
    "/api/models/me/odd": { id: "me/odd", sha: "main" },
    "/me/odd/resolve/main/config.json": { num_hidden_layers: "many" },
  };
  const update = async (...args: string[]) => {
    const endpoint = await serveHub(answers);
    return run("catalog", "update", ...args, "--write", file, "--endpoint", endpoint, "--token-file", token);
  };
  expect(await update("me/mine", "--gguf", "me/mine-GGUF")).toMatchObject({
    code: 0,
    stdout: "me/mine: added\n",
  });
  const read = async () =>
    (await readFile(file, "utf8"))
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
  const [added] = await read();
  expect(added).toMatchObject({
    provider: "me",
    parameter_count: "8.03B",
    context_length: 8192,
    license: "mit",
    architecture: "llama",
    release_date: "2026-01-02",
    files_gb: { Q8_0: 8.54, Q4_K_M: 4.92 },
    source: "config.json of me/mine at cccccccccccc",
  });
  for (const absent of ["head_dim", "sliding_window", "num_experts"])
    expect(added).not.toHaveProperty(absent);
  expect((await run("catalog", "show", "me/mine", "--catalog", file)).code).toBe(0);

  // Again, all that the file has: what is known stays, and the sizes are those of now.
  answers["/api/models/me/mine-GGUF"] = {
    id: "me/mine-GGUF",
    siblings: siblings({ "mine-Q8_0.gguf": 8.6e9 }),
  };
  expect(await update()).toMatchObject({ code: 0, stdout: "me/mine: updated files_gb\n" });
  expect((await read())[0].files_gb).toEqual({ Q8_0: 8.6, Q4_K_M: 4.92 });
  expect((await update()).stdout).toBe("me/mine: unchanged\n");

  const bad = await update("me/mine", "me/none", "me/html", "me/odd", "../../etc");
  expect(bad.code).toBe(1);
  expect(bad.stdout.split("\n")).toEqual([
    "me/mine: unchanged",
    expect.stringMatching(/^me\/none: not changed: SourceNotFound: /),
    expect.stringMatching(/^me\/html: not changed: SourceRefused: .*JSON$/),
    expect.stringMatching(/^me\/odd: not changed: \w+: /),
    "../../etc: not changed: not a repository (org/name)",
    "",
  ]);
  expect(await read()).toHaveLength(1);
  await writeFile(token, "stolen");
  expect((await update()).stdout).toContain("SourceUnauthorized");
  await writeFile(file, "no record\n");
  expect(await update("me/mine")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("CatalogUnreadable"),
  });
  expect(await readFile(file, "utf8")).toBe("no record\n");
});

test("nodes and agents answer llmfit's REST API about records of the user's own", {
  timeout: 120_000,
}, async () => {
  const folder = await mkdtemp(path.join(tmpdir(), "catalog-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const [ours] = (await readFile("catalog/models.jsonl", "utf8")).split("\n");
  const catalog = path.join(folder, "mine.jsonl");
  await writeFile(catalog, JSON.stringify({ ...JSON.parse(ours ?? ""), name: "me/mine-8b" }));
  const kubeconfig = path.join(folder, "kubeconfig");
  await writeFile(
    kubeconfig,
    JSON.stringify({
      apiVersion: "v1",
      kind: "Config",
      "current-context": "c",
      clusters: [{ name: "c", cluster: { server: "https://127.0.0.1:1" } }],
      users: [{ name: "u", user: {} }],
      contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
    }),
  );
  const config = path.join(folder, "agent.json");
  const stateDir = path.join(folder, "state");
  const llmfit = { enabled: true, port: 0, catalog };
  await writeFile(config, JSON.stringify({ stateDir, hostName: "mine", metricsPort: 0, llmfit }));
  for (const args of [
    ["node", "--llmfit-port", "0", "--catalog", catalog],
    ["agent", "--config", config],
  ]) {
    await using program = startProgram(args, { kubeconfig });
    const port = await until(() => {
      const [, found] = /"port":(\d+)[^\n]*listening for llmfit's REST API/.exec(program.stderr()) ?? [];
      if (found === undefined) throw new Error(program.stderr());
      return found;
    });
    const url = `http://127.0.0.1:${port}/api/v1/models/mine-8b?min_fit=too_tight`;
    expect(await (await fetch(url)).json()).toMatchObject({ models: [{ name: "me/mine-8b" }] });
  }
});
