/** Hashes stored content again, because disks corrupt data silently. Damaged content moves to quarantine and is not served. */

import { createHash } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";
import * as z from "zod";
import { waitMs } from "../../src/kube/wait.ts";
import { publicSource } from "../../src/models/source/parse.ts";
import { ifExists, systemCode } from "../../src/util/atomic-file.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { blobPath, listBlobs } from "./content/blobs.ts";
import type { StoreLayout } from "./content/layout.ts";
import { openPersistedJson } from "./content/persisted-json.ts";
import type { Ref, Refs } from "./content/refs.ts";

const CHUNK_BYTES = 1 << 20;
const knownSchema = z.object({
  version: z.literal(1),
  /** Wall-clock times in ms, by checksum. */
  blobs: z.record(
    z.string().regex(/^[0-9a-f]{64}$/),
    z.object({ verifiedMs: z.number().optional(), damagedMs: z.number().optional() }),
  ),
});

export interface VerifyOptions {
  readonly signal: AbortSignal;
  /** Public names of sources; absent: every model. */
  readonly sources?: readonly string[] | undefined;
  /** Skips content that was verified after this wall-clock time (ms). */
  readonly beforeMs?: number | undefined;
  /** Absent: no limit. */
  readonly bytesPerSecond?: number | undefined;
  /** Called as soon as a damaged file is in quarantine, because the remaining files may take hours. */
  readonly onDamaged?: ((file: VerifiedFile) => void) | undefined;
  /** Called before each file; false ends the run. */
  readonly mayContinue?: (() => boolean) | undefined;
  readonly onProgress?:
    | ((progress: { readonly bytes: number; readonly totalBytes: number }) => void)
    | undefined;
}

/** damaged: the bytes do not match the checksum, or the disk cannot read them. */
export interface VerifiedFile {
  readonly source: string;
  readonly file: string;
  readonly sha256: string;
  readonly sizeBytes: number;
  readonly state: "intact" | "damaged" | "missing";
}

export interface Verification {
  /** Verifies the least recently verified content first. Rejects with the signal's reason. */
  readonly verify: (options: VerifyOptions) => Promise<readonly VerifiedFile[]>;
  /** The last time at which all files of a model were intact, and whether a file is damaged and has not been fetched again. */
  readonly describe: () => Promise<(ref: Ref) => Verified>;
}

export interface Verified {
  readonly verifiedMs?: number;
  readonly isDamaged: boolean;
}

interface Parts {
  readonly layout: StoreLayout;
  readonly refs: Refs;
  /** Moves damaged content to quarantine; false if its blob no longer has this inode. */
  readonly quarantine: (sha256: string, inode: number) => Promise<boolean>;
  readonly clock: Clock;
  readonly log: Log;
  /** Reports results and changes nothing. */
  readonly isReadOnly: boolean;
}

export async function openVerification(parts: Parts): Promise<Verification> {
  const { layout, refs, log, clock, isReadOnly } = parts;
  const unreadable = "cannot read when the models were verified; they will be verified again";
  const file = await openPersistedJson(layout.verified, knownSchema, log, unreadable);
  const known = new Map(Object.entries(file.before?.blobs ?? {}));
  const note = async (sha256: string, found: VerifiedFile["state"]): Promise<void> => {
    if (found === "missing" || isReadOnly) return;
    known.set(sha256, found === "intact" ? { verifiedMs: clock.nowMs() } : { damagedMs: clock.nowMs() });
    const named = new Set(refs.all().flatMap((ref) => ref.files.map((one) => one.sha256)));
    for (const old of known.keys()) if (!named.has(old)) known.delete(old);
    await file.write(() => ({ version: 1, blobs: Object.fromEntries(known) }));
  };
  /** Time of the last verification for each stored content. Content was hashed when it was written. */
  const verifiedTimes = async (): Promise<ReadonlyMap<string, number>> =>
    new Map(
      (await listBlobs(layout)).map(({ sha256, modifiedMs }) => [
        sha256,
        Math.max(known.get(sha256)?.verifiedMs ?? 0, modifiedMs),
      ]),
    );
  return {
    verify: async (options) => {
      const times = await verifiedTimes();
      const lastMs = ({ sha256 }: Content) => times.get(sha256) ?? known.get(sha256)?.verifiedMs ?? 0;
      const { beforeMs = Number.POSITIVE_INFINITY, signal, mayContinue = () => true } = options;
      const contents = contentsOf(refs.all(), options)
        .filter((content) => lastMs(content) < beforeMs)
        .sort((a, b) => lastMs(a) - lastMs(b));
      const onBytes = progressOf(contents, options);
      const results: VerifiedFile[] = [];
      for (const content of contents) {
        signal.throwIfAborted();
        if (!mayContinue()) break;
        const state = await check(content.sha256, parts, { ...options, onBytes });
        const result = { ...content, state };
        if (state === "damaged") {
          log.error(content, "stored content no longer matches its checksum");
          options.onDamaged?.(result);
        }
        await note(content.sha256, state);
        results.push(result);
      }
      return results;
    },
    describe: async () => {
      const times = await verifiedTimes();
      return ({ files }) => {
        const missing = files.filter(({ sha256 }) => !times.has(sha256));
        const isDamaged = missing.some(({ sha256 }) => known.get(sha256)?.damagedMs !== undefined);
        if (missing.length > 0) return { isDamaged };
        return { isDamaged, verifiedMs: Math.min(...files.map(({ sha256 }) => times.get(sha256) ?? 0)) };
      };
    },
  };
}

type Content = Omit<VerifiedFile, "state">;

/** Lists each content once, with the name of the first model that has it. */
function contentsOf(all: readonly Ref[], { sources }: VerifyOptions): Content[] {
  const found = new Map<string, Content>();
  for (const { source, files } of all) {
    const shown = publicSource(source);
    if (sources !== undefined && !sources.includes(shown)) continue;
    for (const { name, sha256, sizeBytes } of files)
      if (!found.has(sha256)) found.set(sha256, { source: shown, file: name, sha256, sizeBytes });
  }
  return [...found.values()];
}

function progressOf(contents: readonly Content[], { onProgress }: VerifyOptions): (bytes: number) => void {
  const totalBytes = contents.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  let bytes = 0;
  return (more) => {
    bytes += more;
    onProgress?.({ bytes, totalBytes });
  };
}

interface Pace extends Pick<VerifyOptions, "signal" | "bytesPerSecond"> {
  readonly onBytes: (bytes: number) => void;
}

async function check(sha256: string, parts: Parts, pace: Pace): Promise<VerifiedFile["state"]> {
  const { layout, quarantine, clock, isReadOnly } = parts;
  const file = await ifExists(open(blobPath(layout, sha256)));
  if (file === undefined) return "missing";
  try {
    const found = await hashOf(file, pace, clock).catch((error: unknown) => {
      // An unreadable sector damages the content like a wrong bit.
      if (systemCode(error) === "EIO") return undefined;
      throw error;
    });
    if (found === sha256) return "intact";
    if (isReadOnly) return "damaged";
    const { ino } = await file.stat();
    // If the blob was removed or fetched again meanwhile, the bytes that were read are no longer stored.
    return (await quarantine(sha256, ino)) ? "damaged" : "missing";
  } finally {
    await file.close();
  }
}

async function hashOf(
  file: FileHandle,
  { signal, bytesPerSecond, onBytes }: Pace,
  clock: Clock,
): Promise<string> {
  const hash = createHash("sha256");
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  let nextMs = 0;
  for (;;) {
    const { bytesRead } = await file.read(chunk, 0, CHUNK_BYTES);
    if (bytesRead === 0) return hash.digest("hex");
    hash.update(chunk.subarray(0, bytesRead));
    onBytes(bytesRead);
    if (bytesPerSecond !== undefined) {
      // Lost time, such as a system sleep, is not made up for.
      const nowMs = clock.monotonicMs();
      nextMs = Math.max(nextMs, nowMs) + (bytesRead * 1_000) / bytesPerSecond;
      await waitMs(clock, nextMs - nowMs, signal);
    }
    signal.throwIfAborted();
  }
}
