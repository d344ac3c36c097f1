/** A lock between processes that the kernel releases when its holder exits, so that it is never stale. */
import { constants } from "node:fs";
import { open, readFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { systemCode } from "./atomic-file.ts";
import { sha256Hex } from "./hash.ts";

export type Release = () => Promise<void>;

const RETRY_MS = 20;
const TIMEOUT_MS = 10_000;
/** A macOS flag that Node does not name. The lock belongs to the open file and is released when the process exits. */
const O_EXLOCK = 0x20;
const isLinux = process.platform === "linux";

/** Waits for the lock; undefined after a timeout. */
export async function waitForLock(name: string): Promise<Release | undefined> {
  for (const until = performance.now() + TIMEOUT_MS; ; await pause(RETRY_MS)) {
    const release = await tryLock(name);
    if (release !== undefined || performance.now() > until) return release;
  }
}

/** Undefined if another process holds the lock. */
export function tryLock(name: string): Promise<Release | undefined> {
  return isLinux ? bindAbstract(name) : lockFile(name);
}

/** Pid of the holder; undefined if there is none or it is unknown. */
export async function holderOf(name: string): Promise<string | undefined> {
  const reply = isLinux ? text(connect(abstractName(name))) : readFile(`${name}.lock`, "utf8");
  return (await reply.catch(() => "")).trim() || undefined;
}

/** On Linux, the lock is an abstract socket, which has no file. */
function bindAbstract(name: string): Promise<Release | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => {
      socket.on("error", () => undefined);
      socket.end(String(process.pid));
    });
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") resolve(undefined);
      else reject(error);
    });
    server.listen(abstractName(name), () => {
      resolve(() => new Promise((closed) => server.close(() => closed())));
    });
  });
}

function abstractName(name: string): string {
  return `\0metalbridge-${sha256Hex(name).slice(0, 32)}`;
}

/** On macOS, the lock is a file that is opened with an exclusive lock and contains the pid. */
async function lockFile(name: string): Promise<Release | undefined> {
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_NONBLOCK | O_EXLOCK;
  try {
    const file = await open(`${name}.lock`, flags, 0o600);
    await file.truncate();
    await file.write(String(process.pid));
    return () => file.close();
  } catch (error) {
    if (systemCode(error) === "EAGAIN") return undefined;
    throw error;
  }
}
