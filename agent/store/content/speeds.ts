/** Measured engine speed for each content on this machine. Persisted, because it outlives engine, agent and model. */
import { z } from "zod";
import { reportedSpeed, smoothSpeed } from "../../../src/engines/speed.ts";
import type { Log } from "../../../src/util/ports.ts";
import { openPersistedJson } from "./persisted-json.ts";

const fileSchema = z.object({
  version: z.literal(1),
  /** By the checksum of a model's first file; the least recently measured comes first. */
  tokensPerSecond: z.record(z.string().regex(/^[0-9a-f]{64}$/), z.number().positive()),
});

export interface Speeds {
  /** The reported speed; undefined before the first measurement. */
  readonly of: (sha256: string) => number | undefined;
  /** Adds a measurement. The file is written only when the reported speed changes. */
  readonly note: (sha256: string, tokensPerSecond: number) => Promise<void>;
}

const MAX_ENTRIES = 1_000;

/** Unreadable speeds are dropped and measured again. */
export async function openSpeeds(path: string, log: Log): Promise<Speeds> {
  const unreadable = "cannot read the measured speeds; they will be measured again";
  const file = await openPersistedJson(path, fileSchema, log, unreadable);
  const reported = new Map(Object.entries(file.before?.tokensPerSecond ?? {}));
  const exact = new Map(reported);
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
      for (const oldest of [...reported.keys()].slice(0, Math.max(0, reported.size - MAX_ENTRIES))) {
        reported.delete(oldest);
        exact.delete(oldest);
      }
      await file.write(() => ({ version: 1, tokensPerSecond: Object.fromEntries(reported) }));
    },
  };
}
