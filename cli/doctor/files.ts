/** The agent's own files: permissions, engines on disk, the running agent, the speed of their disk. */
import { randomBytes } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { open, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { DAEMONS_FOLDER, ENGINES_FOLDER, GATE_FOLDER } from "../../agent/instances/instances.ts";
import { createIdentityReader } from "../../agent/instances/process/identity/identity.ts";
import {
  type ProcessMark,
  readEngineRecord,
  readRunFiles,
} from "../../agent/instances/run-files/run-directory.ts";
import type { EngineFolder, FileReading, Reading, Readings } from "../../src/doctor/readings.ts";

const SPEED_MS = 1_000;
const CHUNK = 8 << 20;
const MAX_BYTES = 64 << 20;

/** Engines of the state folder, and what of this machine's processes and ports is theirs. */
export interface OwnEngines {
  readonly folders: readonly EngineFolder[];
  readonly pids: ReadonlySet<number>;
  readonly ports: ReadonlySet<number>;
}

const withPort = z.object({ port: z.number() });

/** Throws the system's error where a folder may not be read. */
export function readOwnEngines(stateDir: string): OwnEngines {
  const { startTimeNow } = createIdentityReader(process.platform);
  const pids = new Set<number>();
  const ports = new Set<number>();
  // A process that cannot be asked about may live.
  const isAlive = (mark: ProcessMark | undefined): boolean => {
    if (mark === undefined) return false;
    const now = startTimeNow(mark.pid);
    const lives = now === "unknown" || now === mark.startTime;
    if (lives) pids.add(mark.pid);
    return lives;
  };
  const look = (dir: string): boolean => {
    const { session, main } = readRunFiles(dir);
    const isRunning = [session, main].map(isAlive).includes(true);
    const { data } = withPort.safeParse(readEngineRecord(dir));
    if (isRunning && data !== undefined) ports.add(data.port);
    return isRunning;
  };
  const folders = foldersIn(join(stateDir, ENGINES_FOLDER)).map((uid): EngineFolder => {
    const path = join(stateDir, ENGINES_FOLDER, uid);
    return {
      uid,
      path,
      isRunning: look(path),
      isDesired: existsSync(join(stateDir, "desired", `${uid}.json`)),
    };
  });
  for (const parent of [DAEMONS_FOLDER, GATE_FOLDER])
    for (const name of foldersIn(join(stateDir, parent))) look(join(stateDir, parent, name));
  return { folders, pids, ports };
}

/** Those that exist. Throws the system's error where one cannot be asked about. */
export async function readFiles(
  wanted: readonly { readonly path: string; readonly role: FileReading["role"] }[],
): Promise<readonly FileReading[]> {
  const found = await Promise.all(
    wanted.map(async ({ path, role }) => {
      const info = await statOf(path);
      return info === undefined ? [] : [{ path, role, mode: info.mode & 0o7777, uid: info.uid }];
    }),
  );
  return found.flat();
}

export async function readStateDir(path: string): Promise<Readings["stateDir"]> {
  const info = await statOf(path);
  const ownUid = process.getuid?.() ?? 0;
  return info === undefined ? { path, ownUid } : { path, ownUid, uid: info.uid };
}

/** Writes up to 64 MiB for a second at most, through to the disk. */
export async function readWriteSpeed(stateDir: string): Promise<Reading<Readings["writeSpeed"]>> {
  if ((await statOf(stateDir)) === undefined) return { unknown: `${stateDir} does not exist yet` };
  const file = join(stateDir, `.doctor-${process.pid}`);
  try {
    const handle = await open(file, "wx", 0o600);
    try {
      // At once: however doctor ends, nothing stays.
      await rm(file);
      // Random: some disks compress.
      const chunk = randomBytes(CHUNK);
      const startMs = performance.now();
      let bytes = 0;
      while (bytes < MAX_BYTES && performance.now() - startMs < SPEED_MS) {
        await handle.write(chunk);
        await handle.datasync();
        bytes += CHUNK;
      }
      return { value: { bytesPerSecond: Math.round((bytes * 1_000) / (performance.now() - startMs)) } };
    } finally {
      await handle.close();
    }
  } finally {
    await rm(file, { force: true });
  }
}

async function statOf(path: string) {
  try {
    return await stat(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

function foldersIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}
