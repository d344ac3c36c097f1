/** Reads the agent's files: permissions, engine folders, and the write speed of the disk. */
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { open, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { DAEMONS_FOLDER, ENGINES_FOLDER, GATE_FOLDER } from "../../agent/instances/instances.ts";
import type { EngineFolder, FileReading, Reading, Readings } from "../../src/doctor/readings.ts";
import { createIdentityReader } from "../../src/supervise/identity/identity.ts";
import { type ProcessMark, readRecord, readRunFiles } from "../../src/supervise/run-directory.ts";
import { ifExists } from "../../src/util/atomic-file.ts";
import { listSubfolders } from "../../src/util/folder.ts";

const SPEED_MS = 1_000;
const CHUNK = 8 << 20;
const MAX_BYTES = 64 << 20;

/** The engines in the state folder, with their processes and ports. */
export interface OwnEngines {
  readonly folders: readonly EngineFolder[];
  readonly pids: ReadonlySet<number>;
  readonly ports: ReadonlySet<number>;
}

const withPort = z.object({ port: z.number() });

/** Throws the system error if a folder cannot be read. */
export function readOwnEngines(stateDir: string): OwnEngines {
  const { startTimeNow } = createIdentityReader(process.platform);
  const pids = new Set<number>();
  const ports = new Set<number>();
  // A process that cannot be inspected may be running.
  const isAlive = (mark: ProcessMark | undefined): boolean => {
    if (mark === undefined) return false;
    const now = startTimeNow(mark.pid);
    const alive = now === "unknown" || now === mark.startTime;
    if (alive) pids.add(mark.pid);
    return alive;
  };
  const inspect = (dir: string): boolean => {
    const { session, main } = readRunFiles(dir);
    const isRunning = [session, main].map(isAlive).includes(true);
    const { data } = withPort.safeParse(readRecord(dir));
    if (isRunning && data !== undefined) ports.add(data.port);
    return isRunning;
  };
  const folders = listSubfolders(join(stateDir, ENGINES_FOLDER)).map((uid): EngineFolder => {
    const path = join(stateDir, ENGINES_FOLDER, uid);
    return {
      uid,
      path,
      isRunning: inspect(path),
      isDesired: existsSync(join(stateDir, "desired", `${uid}.json`)),
    };
  });
  for (const parent of [DAEMONS_FOLDER, GATE_FOLDER])
    for (const name of listSubfolders(join(stateDir, parent))) inspect(join(stateDir, parent, name));
  return { folders, pids, ports };
}

/** Reads the files that exist. Throws the system error if the metadata of a file cannot be read. */
export async function readFiles(
  files: readonly { readonly path: string; readonly role: FileReading["role"] }[],
): Promise<readonly FileReading[]> {
  const found = await Promise.all(
    files.map(async ({ path, role }) => {
      const info = await ifExists(stat(path));
      return info === undefined ? [] : [{ path, role, mode: info.mode & 0o7777, uid: info.uid }];
    }),
  );
  return found.flat();
}

export async function readStateDir(path: string): Promise<Readings["stateDir"]> {
  const info = await ifExists(stat(path));
  const ownUid = process.getuid?.() ?? 0;
  return info === undefined ? { path, ownUid } : { path, ownUid, uid: info.uid };
}

/** Writes up to 64 MiB to the disk, for one second at most. */
export async function readWriteSpeed(stateDir: string): Promise<Reading<Readings["writeSpeed"]>> {
  if ((await ifExists(stat(stateDir))) === undefined) return { unknown: `${stateDir} does not exist yet` };
  const file = join(stateDir, `.doctor-${process.pid}`);
  try {
    const handle = await open(file, "wx", 0o600);
    try {
      // Removed at once, so that no file remains even if doctor is killed.
      await rm(file);
      // Random data, because some disks compress.
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
