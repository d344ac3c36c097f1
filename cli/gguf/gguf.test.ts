import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ranged, serveModel } from "../../test/fixtures/model-server.ts";
import { writeTinyGguf } from "../../test/fixtures/tiny-gguf.ts";

const run = promisify(execFile);
const PROGRAM = new URL("../metalbridge.mjs", import.meta.url).pathname;

let folder: string;
let tiny: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "metalbridge-gguf-"));
  tiny = join(folder, "tiny.gguf");
  await writeTinyGguf(tiny);
});
afterAll(() => rm(folder, { recursive: true }));

async function gguf(...args: string[]): Promise<{ stdout: string; stderr: string; code: number }> {
  return run(process.execPath, [PROGRAM, "gguf", ...args]).then(
    (done) => ({ ...done, code: 0 }),
    ({ stdout, stderr, code }) => ({ stdout, stderr, code }),
  );
}

test("a file becomes facts and a claim in JSON", async () => {
  const { stdout } = await gguf(
    tiny,
    "--context",
    "8192",
    "--slots",
    "4",
    "--prompt-cache",
    "0",
    "--draft",
    tiny,
    "--output",
    "json",
  );
  const { gguf: facts, claim } = JSON.parse(stdout);
  expect(facts).toMatchObject({
    architecture: "llama",
    layerCount: 2,
    headCountKV: 1,
    keyLength: 32,
    quantization: "F32",
  });
  expect(claim).toMatchObject({ kvBytes: 2 * 8192 * 2 * 32 * 2, promptCacheBytes: 0, projectorBytes: 0 });
  expect(claim.draftBytes).toBeGreaterThan(claim.weightsBytes);
  const { claimBytes, ...parts } = claim;
  expect(Object.values<number>(parts).reduce((sum, part) => sum + part, 0)).toBe(claimBytes);
});

test("people get a table", async () => {
  const { stdout } = await gguf(tiny);
  expect(stdout).toMatch(/architecture +llama\n/);
  expect(stdout).toMatch(/KV cache +[\d.]+ MiB\n/);
});

test("an address is read by its header", async () => {
  const server = await serveModel(ranged(await readFile(tiny)));
  const { stdout } = await gguf(`${server.url}/tiny.gguf`, "-o", "json");
  expect(JSON.parse(stdout).gguf.modelName).toBe("Metalbridge Tiny");
});

test("what is no GGUF ends with a code, a sentence and exit code 1", async () => {
  const cut = join(folder, "cut.gguf");
  await writeTinyGguf(cut);
  await truncate(cut, 200_000);
  const page = join(folder, "page.gguf");
  await writeFile(page, "<html></html>");
  const empty = join(folder, "empty.gguf");
  await writeFile(empty, "");
  const cases = [
    [cut, "GgufTruncated"],
    [page, "SourceIsNotAModel"],
    [empty, "SourceEmpty"],
    [join(folder, "none.gguf"), "SourceNotFound"],
    [folder, "FileUnreadable"],
    ["pvc://claim/m.gguf", "SourceNotSupported"],
  ] as const;
  for (const [file, code] of cases)
    expect(await gguf(file)).toMatchObject({ code: 1, stderr: expect.stringContaining(code) });
});

test("a bad option is named", async () => {
  expect(await gguf(tiny, "--context", "many")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--context"),
  });
});

test("a context beyond the trained one is a note and no refusal", async () => {
  const trained = join(folder, "trained.gguf");
  await writeTinyGguf(trained, { contextLength: 2048 });
  const { stdout, stderr, code } = await gguf(trained, "--context", "16384", "-o", "json");
  expect(code).toBe(0);
  expect(JSON.parse(stdout).claim.kvBytes).toBe(2 * 16_384 * 2 * 32 * 2);
  expect(JSON.parse(stdout).notes).toEqual([expect.stringContaining("a request could use 16384 tokens")]);
  expect(stderr).toContain("a request could use 16384 tokens, but the model was trained for 2048");
  expect((await gguf(trained, "--context", "8192", "--slots", "4")).stderr).toBe("");
});

test("thousands of slots are counted and noted", async () => {
  const { stdout, stderr } = await gguf(tiny, "--context", "2048", "--slots", "5000", "-o", "json");
  expect(JSON.parse(stdout).claim.outputBytes).toBeGreaterThanOrEqual(5000 * 4 * 256);
  expect(stderr).toContain("at most 256 slots");
});
