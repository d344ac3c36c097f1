import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { parseFetchResult } from "../src/models/fetch-result.ts";
import { startS3Server, whyNoS3Server } from "../test/bed/s3-server.ts";
import { headerBytes, TENSOR_BYTES } from "../test/fixtures/model-server.ts";
import { cutAfter, sendFile, sha256, startOrigin } from "../test/fixtures/origin.ts";
import { selfSigned } from "../test/fixtures/self-signed.ts";
import { whyNoAuthority } from "../test/fixtures/test-authority.ts";

const PROGRAM = join(import.meta.dirname, "metalbridge.mjs");
const MIB = 2 ** 20;

// Each test starts the program several times, and attempts at a bad source have delays.
vi.setConfig({ testTimeout: 120_000 });

/** A whole GGUF: its header, and zeros for the tensors and behind them. */
function model(sizeBytes = 0): Buffer {
  const header = headerBytes(10);
  const content = Buffer.alloc(Math.max(sizeBytes, header.length + TENSOR_BYTES));
  content.set(header);
  return content;
}

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "mb-fetch-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

interface Run {
  readonly child: ChildProcess;
  readonly done: Promise<{
    exitCode: number | null;
    lines: string[];
    result: ReturnType<typeof parseFetchResult>;
  }>;
}

function start(to: string, args: readonly string[], env: Record<string, string> = {}): Run {
  const resultFile = join(folder(), "termination-log");
  writeFileSync(resultFile, "");
  const command = [PROGRAM, "fetch", ...args, `--to=${to}`, `--result=${resultFile}`, "--allow-loopback"];
  const child = spawn(process.execPath, command, {
    stdio: ["ignore", "pipe", "ignore"],
    env: { ...process.env, ...env },
  });
  let text = "";
  child.stdout.on("data", (chunk: Buffer) => {
    text += chunk.toString();
  });
  const done = new Promise<Awaited<Run["done"]>>((resolve) =>
    child.once("close", (exitCode) =>
      resolve({
        exitCode,
        lines: text.split("\n").filter((line) => line !== ""),
        result: parseFetchResult(readFileSync(resultFile, "utf8")),
      }),
    ),
  );
  return { child, done };
}

const fetchTo = (to: string, args: readonly string[], env?: Record<string, string>) =>
  start(to, args, env).done;

test("a model is published with its checksum and facts, readable for other users, and is not fetched again", async () => {
  await using origin = await startOrigin();
  const content = model();
  origin.serve("/m.gguf", content);
  const volume = folder();
  const args = [`${origin.url}/m.gguf`, "--folder=0123456789abcdef", "--link=model"];
  const first = await fetchTo(volume, args);
  expect(first.result).toMatchObject({
    code: "Fetched",
    sha256: sha256(content),
    sizeBytes: content.length,
    files: ["m.gguf"],
    format: "gguf",
    weightsBytes: TENSOR_BYTES,
    gguf: { architecture: "llama", layerCount: 2 },
  });
  expect(first.exitCode).toBe(0);
  expect(first.lines.map((line) => JSON.parse(line))).toContainEqual({
    bytes: content.length,
    totalBytes: content.length,
  });
  const { file = "" } = first.result as { file?: string };
  const root = join(volume, "0123456789abcdef");
  expect(readFileSync(join(root, file))).toEqual(content);
  // The name that a pod is made with before anything is fetched.
  expect(readFileSync(join(root, "model/m.gguf"))).toEqual(content);
  for (const name of ["", "blobs", "blobs/sha256", "views", join(file, "..")])
    expect(statSync(join(root, name)).mode & 0o055).toBe(0o055);
  expect(statSync(join(root, file)).mode & 0o444).toBe(0o444);
  const asked = origin.seen.length;
  expect((await fetchTo(volume, args)).result).toEqual(first.result);
  expect(origin.seen).toHaveLength(asked);
});

test("a download that is killed in the middle is resumed by the next one where it stopped", async () => {
  await using origin = await startOrigin();
  const content = model(6 * MIB);
  origin.on("/m.gguf", (_, response) => {
    response.writeHead(200, { etag: '"v1"', "content-length": content.length });
    response.write(content.subarray(0, 4 * MIB));
  });
  const volume = folder();
  const args = [`${origin.url}/m.gguf`, "--folder=key"];
  const { child, done } = start(volume, args);
  const partial = join(volume, "key", "partial");
  await vi.waitFor(
    () => {
      const part = readdirSync(partial).find((name) => name.endsWith(".part")) ?? "none";
      expect(statSync(join(partial, part)).size).toBeGreaterThanOrEqual(3 * MIB);
    },
    { timeout: 60_000, interval: 20 },
  );
  child.kill("SIGKILL");
  expect((await done).result).toBeUndefined();
  expect(readdirSync(join(volume, "key", "views"))).toEqual([]);
  origin.on("/m.gguf", (request, response) => sendFile(request, response, content, '"v1"'));
  const { result, exitCode } = await fetchTo(volume, args);
  expect(exitCode).toBe(0);
  expect(result).toMatchObject({ code: "Fetched", sha256: sha256(content) });
  const from = Number(/^bytes=(\d+)-/.exec(origin.seen.at(-1)?.headers.range ?? "")?.[1]);
  expect(from).toBeGreaterThanOrEqual(3 * MIB);
});

test("the token comes from the environment alone, and is not printed", async () => {
  await using origin = await startOrigin();
  const content = model();
  origin.on("/m.gguf", (request, response) => {
    if (request.headers.authorization === "Bearer t0ken") sendFile(request, response, content);
    else response.writeHead(401).end();
  });
  const args = [`${origin.url}/m.gguf`, "--folder=key"];
  const without = await fetchTo(folder(), args, { HF_TOKEN: "t0ken" });
  expect(without).toMatchObject({ exitCode: 1, result: { code: "SourceUnauthorized", isRetryable: false } });
  const given = await fetchTo(folder(), args, { SOURCE_HF_TOKEN: "t0ken\n" });
  expect(given).toMatchObject({ exitCode: 0, result: { code: "Fetched" } });
  expect(given.lines.join("\n")).not.toContain("t0ken");
});

test.skipIf(whyNoS3Server() !== undefined)(
  "keys for a bucket come from the environment, each of the Secret's with its prefix",
  async () => {
    await using s3 = await startS3Server();
    const content = model();
    await s3.put("models/m.gguf", content);
    const env = Object.fromEntries(
      Object.entries(s3.credentials).map(([key, value]) => [`SOURCE_${key}`, value]),
    );
    const given = await fetchTo(folder(), ["s3://models/m.gguf", "--folder=key"], env);
    expect(given).toMatchObject({ exitCode: 0, result: { code: "Fetched", sha256: sha256(content) } });
    expect(given.lines.join("\n")).not.toContain(s3.credentials.AWS_SECRET_ACCESS_KEY);
  },
);

test("a failure has its code, and an exit code for whether a retry can help", async () => {
  await using origin = await startOrigin();
  const content = model();
  origin.serve("/good.gguf", content);
  origin.serve("/cut.gguf", content.subarray(0, 200));
  origin.on("/page.gguf", (_, response) =>
    response.writeHead(200, { "content-type": "text/html" }).end("<html>login"),
  );
  origin.on("/busy.gguf", (_, response) => response.writeHead(503).end());
  origin.on("/breaks.gguf", (_, response) => cutAfter(response, content, 100));
  const cases: [args: string[], code: string, exitCode: number][] = [
    [["/none.gguf"], "SourceNotFound", 1],
    [["/page.gguf"], "SourceIsNotAModel", 1],
    [["/cut.gguf"], "GgufTruncated", 1],
    [["/good.gguf", `--sha256=${"0".repeat(64)}`], "ChecksumMismatch", 1],
    [["/busy.gguf"], "SourceUnavailable", 75],
    [["/breaks.gguf"], "SourceTruncated", 75],
  ];
  await Promise.all(
    cases.map(async ([[path, ...flags], code, exitCode]) => {
      const volume = folder();
      const ended = await fetchTo(volume, [`${origin.url}${path}`, "--folder=key", ...flags]);
      expect(ended).toMatchObject({ exitCode, result: { code, isRetryable: exitCode === 75 } });
      expect(readdirSync(join(volume, "key", "refs"))).toEqual(
        code === "GgufTruncated" ? [expect.any(String)] : [],
      );
    }),
  );
});

test.skipIf(whyNoAuthority() !== undefined)(
  "a certificate of an unknown authority is named, and trusted with --ca",
  async () => {
    const dir = folder();
    const pair = selfSigned();
    const ca = join(dir, "ca.pem");
    writeFileSync(ca, pair.cert);
    const content = model();
    const server = createServer(pair, (request, response) => sendFile(request, response, content));
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    const args = [`https://127.0.0.1:${(server.address() as AddressInfo).port}/m.gguf`, "--folder=key"];
    const refused = await fetchTo(folder(), args);
    expect(refused).toMatchObject({ exitCode: 1, result: { code: "SourceCertificateUntrusted" } });
    expect(await fetchTo(folder(), [...args, `--ca=${ca}`])).toMatchObject({ result: { code: "Fetched" } });
    expect(await fetchTo(folder(), [...args, `--ca=${dir}/none.pem`])).toMatchObject({
      exitCode: 1,
      result: { code: "FileUnreadable" },
    });
  },
);

test("weights on the volume are used in place: nothing is written, and nothing outside is read", async () => {
  const volume = folder();
  const content = model();
  mkdirSync(join(volume, "llms"));
  writeFileSync(join(volume, "llms", "a b.gguf"), content);
  const found = await fetchTo(volume, [`file://${volume}/llms/a%20b.gguf`, `--sha256=${sha256(content)}`]);
  expect(found).toMatchObject({
    exitCode: 0,
    result: { code: "Fetched", file: "llms/a b.gguf", sizeBytes: content.length, sha256: sha256(content) },
  });
  expect(readdirSync(volume)).toEqual(["llms"]);
  expect(await fetchTo(volume, [`file://${volume}/none.gguf`])).toMatchObject({
    exitCode: 1,
    result: { code: "SourceNotFound" },
  });
  expect(await fetchTo(volume, ["file:///etc/passwd"])).toMatchObject({
    result: { code: "SourceNotAllowed" },
  });
});

const canMount = process.platform === "linux" && process.getuid?.() === 0 && mountsWork();

function mountsWork(): boolean {
  try {
    execFileSync("unshare", ["--mount", "true"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

test.skipIf(!canMount)(
  "a full volume is a code with numbers, and no published model is removed for room (needs root on Linux)",
  async () => {
    await using origin = await startOrigin();
    const volume = folder();
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=8m", "tmpfs", volume]);
    onTestFinished(() => void execFileSync("umount", [volume]));
    const small = model(3 * MIB);
    origin.serve("/small.gguf", small);
    origin.serve("/large.gguf", model(6 * MIB));
    const first = await fetchTo(volume, [`${origin.url}/small.gguf`, "--folder=key"]);
    const ended = await fetchTo(volume, [`${origin.url}/large.gguf`, "--folder=key"]);
    expect(ended).toMatchObject({
      exitCode: 1,
      result: {
        code: "DiskFull",
        message: expect.stringMatching(/needs 6 MiB more; the disk has .* free/),
      },
    });
    expect(readFileSync(join(volume, "key", (first.result as { file: string }).file))).toEqual(small);
  },
);

test("of several pods that fetch to one folder one downloads, and all get the files under their link", async () => {
  await using origin = await startOrigin();
  const content = model();
  origin.serve("/m.gguf", content);
  const volume = folder();
  const args = [`${origin.url}/m.gguf`, "--folder=key"];
  const runs = await Promise.all(["a", "b"].map((link) => fetchTo(volume, [...args, `--link=${link}`])));
  for (const { exitCode, result } of runs) {
    expect(exitCode).toBe(0);
    expect(result).toEqual(runs[0]?.result);
  }
  const downloads = origin.seen.filter(({ method }) => method === "GET");
  const alone = folder();
  await fetchTo(alone, args);
  expect(origin.seen.filter(({ method }) => method === "GET")).toHaveLength(2 * downloads.length);
  for (const link of ["a", "b"]) expect(readFileSync(join(volume, "key", link, "m.gguf"))).toEqual(content);
  // Whoever deletes the folder gets the files again with the next start of a pod.
  rmSync(join(volume, "key"), { recursive: true });
  expect((await fetchTo(volume, [...args, "--link=a"])).exitCode).toBe(0);
  expect(readFileSync(join(volume, "key", "a", "m.gguf"))).toEqual(content);
});
