/** How fast engines were with each content on this machine. On disk, so that it outlives engine, agent and model. */
import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { z } from "zod";
import { reportedSpeed, smoothSpeed } from "../../../src/engines/speed.ts";
import type { Log } from "../../../src/ports.ts";
import { systemCode, writeFileAtomic } from "../../atomic-file.ts";
import { makeFolder } from "../../folder.ts";

const fileSchema = z.object({
  version: z.literal(1),
  /** By the checksum of a model's first file; the longest not measured comes first. */
  tokensPerSecond: z.record(z.string().regex(/^[0-9a-f]{64}$/), z.number().positive()),
});

export interface Speeds {
  /** The reported speed; undefined where nothing was measured. */
  readonly of: (sha256: string) => number | undefined;
  /** One more measurement. Written only when the reported speed changes. */
  readonly note: (sha256: string, tokensPerSecond: number) => Promise<void>;
}

const MOST_ENTRIES = 1_000;

/** Unreadable speeds are dropped and measured again. */
export async function openSpeeds(path: string, log: Log): Promise<Speeds> {
  const reported = new Map(Object.entries(await readSpeeds(path, log)));
  const exact = new Map(reported);
  let writing: Promise<void> = Promise.resolve();
  const write = (): Promise<void> => {
    const text = JSON.stringify({ version: 1, tokensPerSecond: Object.fromEntries(reported) });
    const next = writing.then(async () => {
      await makeFolder(dirname(path));
      await writeFileAtomic(path, text);
    });
    writing = next.catch(() => undefined);
    return next;
  };
  return {
    of: (sha256) => reported.get(sha256),
    note: async (sha256, tokensPerSecond) => {
      const speed = smoothSpeed(exact.get(sha256), tokensPerSecond);
      exact.set(sha256, speed);
      const before = reported.get(sha256);
      const after = reportedSpeed(before, speed);
      if (after === before) return;
      reported.delete(sha256);
      reported.set(sha256, after);
      for (const oldest of [...reported.keys()].slice(0, Math.max(0, reported.size - MOST_ENTRIES))) {
        reported.delete(oldest);
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
  log.warn({ path }, "cannot read the measured speeds; they will be measured again");
  return {};
}
