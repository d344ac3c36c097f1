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

/** `sizeBytes` of zeros behind a GGUF header, sent by a process of its own. */
export async function measureDownload(sizeBytes: number): Promise<readonly Measurement[]> {
  const dir = await mkdtemp(path.join(tmpdir(), "metalbridge-download-"));
  const server = spawn(process.execPath, ["--import", "tsx", worker("file-server"), String(sizeBytes)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  try {
    const [first] = await once(server.stdout, "data");
    const url = String(first).trim();
    const ratios: number[] = [];
    const peaks: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const curlMs = await timed("sh", ["-c", `curl -sS '${url}' | tee '${dir}/curl.gguf' | sha256sum`]);
      const store = JSON.parse(
        await output(process.execPath, [
          "--import",
          "tsx",
          worker("download"),
          url,
          path.join(dir, `store-${round}`),
        ]),
      );
      ratios.push(store.ms / curlMs);
      peaks.push(store.growthBytes / 1e6);
      await rm(path.join(dir, `store-${round}`), { recursive: true });
    }
    return [
      {
        name: "download + checksum, to curl | tee | sha256sum",
        unit: "ratio",
        samples: ratios,
        targets: [{ statistic: "p50", limit: 1.25 }],
      },
      {
        name: "memory growth during the download",
        unit: "MB",
        samples: peaks,
        targets: [{ statistic: "max", limit: 64 }],
      },
    ];
  } finally {
    server.stdin.end();
    await rm(dir, { recursive: true, force: true });
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
