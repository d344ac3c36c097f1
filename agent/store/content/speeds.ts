/** How fast engines were with each content on this machine. On disk, so that it outlives engine, agent and model. */
import { readFile } from "node:fs/promises";
import { z } from "zod";
import { smoothSpeed, toldSpeed } from "../../../src/engines/speed.ts";
import type { Log } from "../../../src/ports.ts";
import { systemCode, writeFileAtomic } from "../atomic.ts";

const fileSchema = z.object({
  version: z.literal(1),
  /** By the checksum of a model's first file; the longest not measured comes first. */
  tokensPerSecond: z.record(z.string().regex(/^[0-9a-f]{64}$/), z.number().positive()),
});

export interface Speeds {
  /** As it is told; undefined where nothing was measured. */
  readonly of: (sha256: string) => number | undefined;
  /** One more measurement. Written only when what is told changes. */
  readonly note: (sha256: string, tokensPerSecond: number) => Promise<void>;
}

const MOST_ENTRIES = 1_000;

/** What cannot be read is measured anew. */
export async function openSpeeds(path: string, log: Log): Promise<Speeds> {
  const told = new Map(Object.entries(await readSpeeds(path, log)));
  const exact = new Map(told);
  let writing: Promise<void> = Promise.resolve();
  const write = (): Promise<void> => {
    const text = JSON.stringify({ version: 1, tokensPerSecond: Object.fromEntries(told) });
    const next = writing.then(() => writeFileAtomic(path, text));
    writing = next.catch(() => undefined);
    return next;
  };
  return {
    of: (sha256) => told.get(sha256),
    note: async (sha256, tokensPerSecond) => {
      const speed = smoothSpeed(exact.get(sha256), tokensPerSecond);
      exact.set(sha256, speed);
      const before = told.get(sha256);
      const after = toldSpeed(before, speed);
      if (after === before) return;
      told.delete(sha256);
      told.set(sha256, after);
      for (const oldest of [...told.keys()].slice(0, Math.max(0, told.size - MOST_ENTRIES))) {
        told.delete(oldest);
        exact.delete(oldest);
      }
      await write();
    },
  };
}

async function readSpeeds(path: string, log: Log): Promise<Readonly<Record<string, number>>> {
  try {
    const parsed = fileSchema.safeParse(JSON.parse(await readFile(path, "utf8")));
    if (parsed.success) return parsed.data.tokensPerSecond;
  } catch (error) {
    if (systemCode(error) === "ENOENT") return {};
    if (!(error instanceof SyntaxError)) throw error;
  }
  log.warn({ path }, "measured speeds cannot be read; they are measured anew");
  return {};
}
