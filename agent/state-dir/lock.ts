/** One agent per state folder: the process that listens on its socket owns it. */
import { chmod, rm, stat } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { waitForLock } from "../../src/util/process-lock.ts";
import { existingSocketPath, isStrangers, makePrivate, socketPathFor, unusable } from "./socket-path.ts";

const ANSWER_MS = 10_000;
const ANSWER_LENGTH_MAX = 65_536;

export interface StateDirLock {
  readonly socketPath: string;
  /** What the socket says from now on. */
  readonly answerWith: (answer: () => string) => void;
  readonly release: () => Promise<void>;
}

/**
 * Throws StateDirInUse with the pid of the running agent; takes over the socket of a dead one. `firstAnswer` is what the socket
 * says to whoever connects; its first line is the pid.
 */
export async function lockStateDir(
  stateDir: string,
  tempDir: string,
  firstAnswer = `${process.pid}\n`,
): Promise<StateDirLock> {
  let answer = () => firstAnswer;
  await makePrivate(stateDir);
  await closeToOthers(stateDir);
  const socketPath = await socketPathFor(join(stateDir, "agent.sock"), tempDir);
  // One at a time: a socket found dead must not be removed after another starter has put its own there.
  const release = await waitForLock(socketPath);
  if (release === undefined)
    throw new MetalbridgeError(
      "StateDirInUse",
      `another agent has been starting at ${socketPath} for too long`,
    );
  try {
    const server = await takeSocket(stateDir, socketPath, () => answer());
    await chmod(socketPath, 0o600);
    return {
      socketPath,
      answerWith: (next) => {
        answer = next;
      },
      release: () => closeServer(server),
    };
  } finally {
    await release();
  }
}

/** Throws StateDirInUse. */
async function takeSocket(stateDir: string, socketPath: string, answer: () => string): Promise<Server> {
  const first = await listen(socketPath, answer);
  if (first !== undefined) return first;
  const pid = await askPid(socketPath);
  if (pid !== undefined)
    throw new MetalbridgeError("StateDirInUse", `${stateDir} is in use by the agent with pid ${pid}`);
  // Nothing listens: a killed agent left the socket behind.
  await rm(socketPath, { force: true });
  const server = await listen(socketPath, answer);
  if (server !== undefined) return server;
  throw new MetalbridgeError("StateDirInUse", `${socketPath} was taken by another process just now`);
}

/** The pid of the agent that uses the state folder, as it says; undefined where none answers. Changes nothing. */
export async function findRunningAgent(stateDir: string, tempDir: string): Promise<string | undefined> {
  return askPid(existingSocketPath(join(stateDir, "agent.sock"), tempDir));
}

/** A user who can write here chooses what the agent runs. A folder on a disk without ownership is left unchanged. */
async function closeToOthers(stateDir: string): Promise<void> {
  const found = await stat(stateDir);
  if (isStrangers(found) && process.getuid?.() !== 0)
    throw unusable(`${stateDir} belongs to another user (uid ${found.uid})`);
  if ((found.mode & 0o022) !== 0) await chmod(stateDir, found.mode & 0o755).catch(() => undefined);
}

/** Undefined when the path is taken. */
function listen(path: string, answer: () => string): Promise<Server | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => {
      socket.on("error", () => undefined);
      socket.end(answer());
    });
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") return resolve(undefined);
      reject(unusable(`cannot listen on ${path}: ${error.message}`, error));
    });
    server.listen(path, () => {
      // A connection that cannot be accepted (too many open files) must not stop the agent.
      server.on("error", () => undefined);
      server.unref();
      resolve(server);
    });
  });
}

/** The listener's pid; "unknown" with why where it does not say or cannot be asked, undefined only when there is no listener. */
function askPid(path: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket: Socket = connect(path);
    let answer = "";
    const finish = (result: string | undefined): void => {
      socket.destroy();
      resolve(result);
    };
    // An answer that came while this process was held up is still to be read.
    socket.setTimeout(ANSWER_MS, () => setImmediate(finish, "unknown (it does not answer)"));
    socket.on("data", (chunk) => {
      answer += chunk.toString();
      if (answer.length > ANSWER_LENGTH_MAX) finish("unknown (its answer is too long)");
    });
    socket.once("end", () => finish(answer.split("\n")[0]?.trim() || "unknown"));
    socket.once("error", (error: NodeJS.ErrnoException) => {
      const isNone = error.code === "ENOENT" || error.code === "ECONNREFUSED" || error.code === "ENOTDIR";
      finish(isNone ? undefined : `unknown (${error.message})`);
    });
  });
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}
