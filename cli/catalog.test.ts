import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { main } from "./main.ts";

/** In this process: a start of its own costs a second. */
async function run(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const written = { stdout: "", stderr: "" };
  const spies = (["stdout", "stderr"] as const).map((name) =>
    vi.spyOn(process[name], "write").mockImplementation((text) => {
      written[name] += String(text);
      return true;
    }),
  );
  try {
    return { code: await main(args), ...written };
  } finally {
    process.exitCode = undefined;
    for (const spy of spies) spy.mockRestore();
  }
}

test("the catalogue is searched and shown, and its own records do not contradict themselves", async () => {
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
    ...{ memory_required_gb: 6.13, fit_level: "perfect", best_quant: "mlx-4bit" },
  });
});

test.each([
  [["--memory", "-32Gi"], /MachineUnusable: .*is no size|MachineUnusable: .*has to be a size/, 1],
  [["--memory", "nonsense"], /MachineUnusable: --memory nonsense has to be a size/, 1],
  [["--memory", "1000000Ti"], /MachineUnusable: .* is no size of a machine/, 1],
  [["--chip", "M4"], /MachineUnusable: --memory is missing/, 1],
  [["--quantization", "Q9_Z"], /has to be one of .*Q4_K_M/, 2],
  [["--use-case", "magic"], /Allowed choices are general/, 2],
  [["--min-fit", "great"], /Allowed choices are perfect/, 2],
  [["--limit", "0"], /at least 1/, 2],
  [["--cache-type", "q9"], /Allowed choices are/, 2],
])("fit %j is refused with the reason", async (args, expected, code) => {
  expect(await run("fit", ...args)).toMatchObject({ code, stderr: expect.stringMatching(expected) });
});
