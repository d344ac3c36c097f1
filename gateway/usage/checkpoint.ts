/** The file that survives a killed gateway: the position in the access log, and the usage up to it that is not in a record yet. */
import { readFile } from "node:fs/promises";
import { z } from "zod";
import type { UsageRow } from "../../src/gateway/usage.ts";
import { writeFileAtomic } from "../../src/util/atomic-file.ts";
import { parseJson } from "../../src/util/parse-json.ts";
import type { Log } from "../../src/util/ports.ts";
import type { LogPosition } from "../envoy/follow-log.ts";

/** Usage of a day that may not be in its record yet. */
export interface UnwrittenDay {
  readonly day: string;
  readonly rows: readonly UsageRow[];
  /** A write of these rows was started, with this id. */
  readonly pending?: { readonly id: string; readonly rows: readonly UsageRow[] } | undefined;
}

export interface Checkpoint {
  /** Undefined before the first start. */
  readonly position: LogPosition | undefined;
  readonly days: readonly UnwrittenDay[];
}

export interface CheckpointFile {
  /** As left by the previous process. */
  readonly found: Checkpoint;
  /** False if it could not be written; the failure is logged once. */
  readonly save: (checkpoint: Checkpoint) => Promise<boolean>;
}

const count = z.number().nonnegative();
const rows = z.array(
  z.object({
    key: z.string(),
    namespace: z.string(),
    model: z.string(),
    host: z.string(),
    requests: count,
    estimatedRequests: count,
    tokensIn: count,
    tokensOut: count,
    tokensCached: count,
  }),
);
const day = z.object({
  day: z.string(),
  rows,
  pending: z.object({ id: z.string(), rows }).optional(),
});
const schema = z.object({ inode: count, offset: count, usage: z.array(day).default([]) });

export async function openCheckpoint(file: string, log: Log): Promise<CheckpointFile> {
  let saved: string | undefined;
  let hasFailed = false;
  return {
    found: await read(file, log),
    save: async ({ position, days }) => {
      if (position === undefined) return true;
      const text = JSON.stringify({ ...position, usage: days });
      if (text === saved) return true;
      try {
        await writeFileAtomic(file, text);
        saved = text;
        hasFailed = false;
      } catch (err) {
        saved = undefined;
        if (!hasFailed)
          log.warn({ err, file }, "cannot write the checkpoint of usage; retried automatically");
        hasFailed = true;
      }
      return !hasFailed;
    },
  };
}

async function read(file: string, log: Log): Promise<Checkpoint> {
  const text = await readFile(file, "utf8").catch(() => undefined);
  if (text === undefined) return { position: undefined, days: [] };
  const parsed = schema.safeParse(parseJson(text));
  if (parsed.success) {
    const { inode, offset, usage } = parsed.data;
    return { position: { inode, offset }, days: usage };
  }
  log.warn({ file }, "cannot read the checkpoint of usage; following the access log from its end");
  return { position: undefined, days: [] };
}
