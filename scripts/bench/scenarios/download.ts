/** Download with checksum from loopback, against `curl | sha256sum` on the same file in the same run. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { Measurement } from "../measurement.ts";

const ROUNDS = 3;
const worker = (name: string) => fileURLToPath(new URL(`../workers/${name}.ts`, import.meta.url));

/** `sizeBytes` of noise behind a GGUF header, and a quarter of it to see whether memory grows with the size. */
export async function measureDownload(sizeBytes: number): Promise<readonly Measurement[]> {
  const dir = await mkdtemp(path.join(tmpdir(), "metalbridge-download-"));
  const ratios: number[] = [];
  const growths: number[] = [];
  const flatness: number[] = [];
  try {
    for (let round = 0; round < ROUNDS; round++) {
      const quarter = await withServer(Math.round(sizeBytes / 4), (url) => fetchByStore(url, dir));
      const whole = await withServer(sizeBytes, async (url) => {
        const curlMs = await timed("sh", ["-c", `curl -sS '${url}' | sha256sum`]);
        return { curlMs, ...(await fetchByStore(url, dir)) };
      });
      ratios.push(whole.ms / whole.curlMs);
      growths.push(whole.growthBytes / 1e6);
      flatness.push(whole.growthBytes / quarter.growthBytes);
    }
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
  return [
    {
      name: "download + checksum, to curl | sha256sum",
      unit: "ratio",
      samples: ratios,
      targets: [{ statistic: "p50", limit: 1.25 }],
    },
    {
      name: "its memory growth, to that of a file of a quarter the size",
      unit: "ratio",
      samples: flatness,
      targets: [{ statistic: "p50", limit: 1.2 }],
    },
    { name: "its memory growth", unit: "MB", samples: growths, targets: [] },
  ];
}

/** The server is a process of its own, so that its work is not counted as ours. */
async function withServer<T>(sizeBytes: number, use: (url: string) => Promise<T>): Promise<T> {
  const server = spawn(process.execPath, ["--import", "tsx", worker("file-server"), String(sizeBytes)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  try {
    const [first] = await once(server.stdout, "data");
    return await use(String(first).trim());
  } finally {
    server.stdin.end();
  }
}

async function fetchByStore(
  url: string,
  dir: string,
): Promise<{ readonly ms: number; readonly growthBytes: number }> {
  const store = path.join(dir, "store");
  try {
    return JSON.parse(await output(process.execPath, ["--import", "tsx", worker("download"), url, store]));
  } finally {
    await rm(store, { recursive: true, force: true });
  }
}

async function timed(program: string, args: readonly string[]): Promise<number> {
  const startedAt = performance.now();
  await output(program, args);
  return performance.now() - startedAt;
}

async function output(program: string, args: readonly string[]): Promise<string> {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  const chunks: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
  const [code] = await once(child, "close");
  if (code !== 0) throw new Error(`${program} ${args.join(" ")} ended with ${code}`);
  return Buffer.concat(chunks).toString("utf8");
}
