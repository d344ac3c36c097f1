/** One agent per state folder: whoever listens on its socket owns it. */
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { chmod, mkdir, rename, rm } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { MetalbridgeError } from "../src/errors.ts";

/** sun_path is 104 bytes on macOS and 108 on Linux, its terminating zero included; 9 are for a dead socket's other name. */
const MOST_PATH_BYTES = 103 - 9;
const ANSWER_MS = 2_000;
const ATTEMPTS = 5;

export interface StateDirLock {
  readonly socketPath: string;
  readonly release: () => Promise<void>;
}

interface Listener {
  readonly server: Server;
  /** Told to whoever connects, so that a path can be told from one that another took over. */
  readonly token: string;
}

/** Throws StateDirInUse with the pid of the living agent; takes over the socket of a dead one. */
export async function lockStateDir(stateDir: string, tempDir: string): Promise<StateDirLock> {
  await makePrivate(stateDir);
  const socketPath = await socketPathFor(stateDir, tempDir);
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const listener = await listen(socketPath);
    const owner = await ask(socketPath);
    if (listener !== undefined && owner?.token === listener.token) {
      await chmod(socketPath, 0o600);
      return { socketPath, release: () => closeServer(listener.server) };
    }
    if (owner !== undefined) {
      // A listener of ours that lost the path is left to the end of the process: closing it would remove the other's.
      throw new MetalbridgeError("StateDirInUse", `${stateDir} is in use by the agent with pid ${owner.pid}`);
    }
    await removeDead(socketPath);
  }
  throw new MetalbridgeError("StateDirInUse", `${socketPath} is taken again and again by another process`);
}

/**
 * Takes away what a killed agent left. Renamed first, then asked: another starter may have replaced the dead socket
 * since we asked, and a living one is put back.
 */
async function removeDead(socketPath: string): Promise<void> {
  const aside = `${socketPath}~${randomBytes(3).toString("hex")}`;
  try {
    await rename(socketPath, aside);
  } catch {
    return; // somebody else was faster
  }
  if ((await ask(aside)) === undefined) await rm(aside, { force: true });
  else await rename(aside, socketPath);
}

async function makePrivate(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new MetalbridgeError("StateDirUnusable", `${folder} cannot be created: ${why}`, undefined, {
      cause: error,
    });
  }
}

/** Beside the state where that is short enough, else under the temporary folder by the hash of the state's path. */
async function socketPathFor(stateDir: string, tempDir: string): Promise<string> {
  const beside = join(stateDir, "agent.sock");
  if (Buffer.byteLength(beside) <= MOST_PATH_BYTES) return beside;
  const digest = createHash("sha256").update(stateDir).digest("hex").slice(0, 24);
  const folder = join(tempDir, `metalbridge-${process.getuid?.() ?? 0}`);
  const short = join(folder, `${digest}.sock`);
  if (Buffer.byteLength(short) > MOST_PATH_BYTES) {
    throw new MetalbridgeError(
      "StateDirUnusable",
      `${beside} is longer than a socket's path may be (${MOST_PATH_BYTES} bytes)`,
    );
  }
  await makePrivate(folder);
  return short;
}

/** Undefined when the path is taken. */
function listen(path: string): Promise<Listener | undefined> {
  const token = randomUUID();
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => {
      socket.on("error", () => undefined);
      socket.end(`${process.pid} ${token}\n`);
    });
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") return resolve(undefined);
      const message = `cannot listen on ${path}: ${error.message}`;
      reject(new MetalbridgeError("StateDirUnusable", message, undefined, { cause: error }));
    });
    server.listen(path, () => {
      // A connection that cannot be accepted (too many open files) must not end the agent.
      server.on("error", () => undefined);
      server.unref();
      resolve({ server, token });
    });
  });
}

interface Owner {
  /** "unknown" when it lives but says nothing. */
  readonly pid: string;
  readonly token: string;
}

/** Who listens; undefined when nobody does. */
function ask(path: string): Promise<Owner | undefined> {
  return new Promise((resolve) => {
    const socket: Socket = connect(path);
    let answer = "";
    const finish = (owner: Owner | undefined): void => {
      socket.destroy();
      resolve(owner);
    };
    socket.setTimeout(ANSWER_MS, () => finish({ pid: "unknown (it does not answer)", token: "" }));
    socket.on("data", (chunk) => {
      answer += chunk.toString();
    });
    socket.once("end", () => {
      const [pid = "", token = ""] = answer.trim().split(" ");
      finish({ pid: pid === "" ? "unknown" : pid, token });
    });
    socket.once("error", () => finish(undefined));
  });
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}
