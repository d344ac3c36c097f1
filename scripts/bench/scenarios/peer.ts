/** A model from a host that has it, over loopback: against a raw TLS stream of the same file in the same run. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { Measurement } from "../measurement.ts";
import { output } from "../origins.ts";

const ROUNDS = 3;
const worker = (name: string) => fileURLToPath(new URL(`../workers/${name}.ts`, import.meta.url));

interface Taken {
  readonly ms: number;
  readonly growthBytes: number;
}

export async function measurePeer(sizeBytes: number): Promise<readonly Measurement[]> {
  const dir = await mkdtemp(path.join(tmpdir(), "metalbridge-peer-"));
  const giverArguments = [
    "--import",
    "tsx",
    worker("peer-giver"),
    path.join(dir, "giver"),
    String(sizeBytes),
  ];
  const giver = spawn(process.execPath, giverArguments, { stdio: ["pipe", "pipe", "inherit"] });
  const shares: number[] = [];
  const growths: number[] = [];
  try {
    const [first] = await once(giver.stdout, "data");
    const store = path.join(dir, "taker");
    const take = async (how: "raw" | "peer"): Promise<Taken> => {
      const offer = String(first).trim();
      return JSON.parse(
        await output(process.execPath, ["--import", "tsx", worker("peer-taker"), how, store, offer]),
      ) as Taken;
    };
    for (let round = 0; round < ROUNDS; round++) {
      const raw = await take("raw");
      const taken = await take("peer");
      await rm(store, { recursive: true, force: true });
      shares.push(taken.ms / raw.ms);
      growths.push(taken.growthBytes / 1e6);
    }
  } finally {
    giver.stdin.end();
    await rm(dir, { recursive: true, force: true });
  }
  return [
    {
      name: "a model from a peer, verified and published, to a raw TLS stream",
      unit: "ratio",
      samples: shares,
      targets: [{ statistic: "p50", limit: 1.25 }],
    },
    { name: "a model from a peer: memory that it adds", unit: "MB", samples: growths, targets: [] },
  ];
}
