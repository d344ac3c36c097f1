/** A lock between processes that the kernel releases when its holder dies, so that it can never be stale. */
import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { createServer } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { MetalbridgeError } from "../src/api/errors.ts";

type Release = () => Promise<void>;

const TRY_AGAIN_MS = 20;
const GIVE_UP_MS = 10_000;
/** A macOS flag that Node does not name. The lock belongs to the open file and is released when the process exits. */
const O_EXLOCK = 0x20;

/** Runs `work` while no other process runs under the same name (a path). Throws StateDirInUse when it takes too long. */
export async function oneAtATime<T>(name: string, work: () => Promise<T>): Promise<T> {
  const release = await acquire(name);
  try {
    return await work();
  } finally {
    await release();
  }
}

async function acquire(name: string): Promise<Release> {
  const attempt = process.platform === "linux" ? bindAbstract : lockFile;
  for (const until = performance.now() + GIVE_UP_MS; ; await pause(TRY_AGAIN_MS)) {
    const release = await attempt(name);
    if (release !== undefined) return release;
    if (performance.now() > until) {
      throw new MetalbridgeError("StateDirInUse", `another agent has been starting at ${name} for too long`);
    }
  }
}

/** Linux: a name in the kernel's own table of sockets, with no file behind it. */
function bindAbstract(name: string): Promise<Release | undefined> {
  const digest = createHash("sha256").update(name).digest("hex").slice(0, 32);
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") resolve(undefined);
      else reject(error);
    });
    server.listen(`\0metalbridge-${digest}`, () => {
      resolve(() => new Promise((closed) => server.close(() => closed())));
    });
  });
}

/** macOS: a file opened with a lock on it. */
async function lockFile(name: string): Promise<Release | undefined> {
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_NONBLOCK | O_EXLOCK;
  try {
    const file = await open(`${name}.lock`, flags, 0o600);
    return () => file.close();
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EAGAIN") return undefined;
    throw error;
  }
}
