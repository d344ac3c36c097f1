/** Hashes stored content again: disks lose bits without a word. What differs is set aside, so that it is never served again. */
import { createHash } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";
import * as z from "zod";
import { waitMs } from "../../src/kube/wait.ts";
import { publicSource } from "../../src/models/source/parse.ts";
import { systemCode } from "../../src/util/atomic-file.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { blobPath, listBlobs } from "./content/blobs.ts";
import type { StoreLayout } from "./content/layout.ts";
import { openPersistedJson } from "./content/persisted-json.ts";
import type { Ref, Refs } from "./refs.ts";

const CHUNK_BYTES = 1 << 20;
const knownSchema = z.object({
  version: z.literal(1),
  /** By checksum, in ms of the wall clock. */
  blobs: z.record(
    z.string().regex(/^[0-9a-f]{64}$/),
    z.object({ verifiedMs: z.number().optional(), damagedMs: z.number().optional() }),
  ),
});

export interface VerifyOptions {
  readonly signal: AbortSignal;
  /** Public names; absent: every model. */
  readonly sources?: readonly string[] | undefined;
  /** Only what was last verified before this time, in ms of the wall clock. */
  readonly beforeMs?: number | undefined;
  /** Absent: as fast as the disk is. */
  readonly bytesPerSecond?: number | undefined;
  /** Called as soon as a damaged file has been set aside: others may take hours. */
  readonly onDamaged?: ((file: VerifiedFile) => void) | undefined;
  /** Asked before each file; false ends the run. */
  readonly mayContinue?: (() => boolean) | undefined;
  readonly onProgress?:
    | ((progress: { readonly bytes: number; readonly totalBytes: number }) => void)
    | undefined;
}

/** damaged: its bytes are not those of its checksum, or the disk cannot read them. */
export interface VerifiedFile {
  readonly source: string;
  readonly file: string;
  readonly sha256: string;
  readonly sizeBytes: number;
  readonly state: "intact" | "damaged" | "missing";
}

export interface Verification {
  /** Oldest first. Rejects with the signal's reason. */
  readonly verify: (options: VerifyOptions) => Promise<readonly VerifiedFile[]>;
  /** When all files of a model were last known to be whole, and whether one was found damaged and is not back yet. */
  readonly describe: () => Promise<(ref: Ref) => Verified>;
}

export interface Verified {
  readonly verifiedMs?: number;
  readonly isDamaged: boolean;
}

interface Parts {
  readonly layout: StoreLayout;
  readonly refs: Refs;
  /** Moves damaged content aside; false where its blob is no longer the file of this inode. */
  readonly quarantine: (sha256: string, inode: number) => Promise<boolean>;
  readonly clock: Clock;
  readonly log: Log;
  /** Says what it finds and changes nothing. */
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
  /** Content was hashed when it was written. */
  const verifiedMs = (sha256: string, modifiedMs: number): number =>
    Math.max(known.get(sha256)?.verifiedMs ?? 0, modifiedMs);
  return {
    verify: async (options) => {
      const blobs = new Map((await listBlobs(layout)).map((blob) => [blob.sha256, blob.modifiedMs]));
      const lastMs = (sha256: string) => verifiedMs(sha256, blobs.get(sha256) ?? 0);
      const { beforeMs = Number.POSITIVE_INFINITY, signal, mayContinue = () => true } = options;
      const due = contentsOf(refs.all(), options)
        .filter(({ sha256 }) => lastMs(sha256) < beforeMs)
        .sort((a, b) => lastMs(a.sha256) - lastMs(b.sha256));
      const read = progressOf(due, options);
      const results: VerifiedFile[] = [];
      for (const one of due) {
        signal.throwIfAborted();
        if (!mayContinue()) break;
        const state = await check(one.sha256, parts, { ...options, onBytes: read });
        if (state === "damaged") {
          log.error(one, "stored content does not match its checksum any more");
          options.onDamaged?.({ ...one, state });
        }
        await note(one.sha256, state);
        results.push({ ...one, state });
      }
      return results;
    },
    describe: async () => {
      const blobs = new Map((await listBlobs(layout)).map((blob) => [blob.sha256, blob.modifiedMs]));
      return ({ files }) => {
        const isDamaged = files.some(
          ({ sha256 }) => known.get(sha256)?.damagedMs !== undefined && !blobs.has(sha256),
        );
        const times = files.map(({ sha256 }) => {
          const modifiedMs = blobs.get(sha256);
          return modifiedMs === undefined ? undefined : verifiedMs(sha256, modifiedMs);
        });
        if (times.includes(undefined)) return { isDamaged };
        return { isDamaged, verifiedMs: Math.min(...times.map((ms) => ms ?? 0)) };
      };
    },
  };
}

type Content = Omit<VerifiedFile, "state">;

/** Each content once, under the name of the first model that has it. */
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

function progressOf(due: readonly Content[], { onProgress }: VerifyOptions): (bytes: number) => void {
  const totalBytes = due.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
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
  let file: FileHandle;
  try {
    file = await open(blobPath(layout, sha256));
  } catch (error) {
    if (systemCode(error) === "ENOENT") return "missing";
    throw error;
  }
  try {
    const found = await hashOf(file, pace, clock).catch((error: unknown) => {
      // A sector that is gone: the content is as lost as with a wrong bit.
      if (systemCode(error) === "EIO") return undefined;
      throw error;
    });
    if (found === sha256) return "intact";
    if (isReadOnly) return "damaged";
    const { ino } = await file.stat();
    // Removed, or fetched again, while it was read: what was read is not stored any more.
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
      // Time that was lost, as in a sleep, is not made up for.
      const nowMs = clock.monotonicMs();
      nextMs = Math.max(nextMs, nowMs) + (bytesRead * 1_000) / bytesPerSecond;
      await waitMs(clock, nextMs - nowMs, signal);
    }
    signal.throwIfAborted();
  }
}
