/** Ensures one agent per state folder: the process that listens on the folder's socket owns the folder. */
import { chmod, rm, stat } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { waitForLock } from "../../src/util/process-lock.ts";
import { belongsToOther, existingSocketPath, makePrivate, socketPathFor, unusable } from "./socket-path.ts";

const ANSWER_MS = 10_000;
const MAX_ANSWER_LENGTH = 65_536;

export interface StateDirLock {
  readonly socketPath: string;
  /** Sets the socket's answer from now on. */
  readonly answerWith: (answer: () => string) => void;
  readonly release: () => Promise<void>;
}

/**
 * Throws StateDirInUse with the pid of the running agent; takes over the socket of a dead one. `firstAnswer` is the socket's
 * answer to each connection; its first line is the pid.
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
  // Serialized: a dead socket must not be removed after another starting agent has replaced it by its own.
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
  const pid = await readPid(socketPath);
  if (pid !== undefined)
    throw new MetalbridgeError("StateDirInUse", `${stateDir} is in use by the agent with pid ${pid}`);
  // No process listens: a killed agent left the socket behind.
  await rm(socketPath, { force: true });
  const server = await listen(socketPath, answer);
  if (server !== undefined) return server;
  throw new MetalbridgeError("StateDirInUse", `${socketPath} was taken by another process just now`);
}

/** The pid that the agent in the state folder reports; undefined if no agent answers. Changes nothing. */
export async function findRunningAgent(stateDir: string, tempDir: string): Promise<string | undefined> {
  return readPid(existingSocketPath(join(stateDir, "agent.sock"), tempDir));
}

/** Removes write access of others, who could make the agent run any program. A folder on a disk without ownership is left unchanged. */
async function closeToOthers(stateDir: string): Promise<void> {
  const found = await stat(stateDir);
  if (belongsToOther(found) && process.getuid?.() !== 0)
    throw unusable(`${stateDir} belongs to another user (uid ${found.uid})`);
  if ((found.mode & 0o022) !== 0) await chmod(stateDir, found.mode & 0o755).catch(() => undefined);
}

/** Undefined if the path is taken. */
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

/** The listener's pid; "unknown" with a reason if it does not answer or connecting fails; undefined only if there is no listener. */
function readPid(path: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket: Socket = connect(path);
    let answer = "";
    const finish = (result: string | undefined): void => {
      socket.destroy();
      resolve(result);
    };
    // Reads an answer that arrived while this process was paused before the timeout takes effect.
    socket.setTimeout(ANSWER_MS, () => setImmediate(finish, "unknown (it does not answer)"));
    socket.on("data", (chunk) => {
      answer += chunk.toString();
      if (answer.length > MAX_ANSWER_LENGTH) finish("unknown (its answer is too long)");
    });
    socket.once("end", () => finish(answer.split("\n")[0]?.trim() || "unknown"));
    socket.once("error", (error: NodeJS.ErrnoException) => {
      const hasNoListener = ["ENOENT", "ECONNREFUSED", "ENOTDIR"].includes(error.code ?? "");
      finish(hasNoListener ? undefined : `unknown (${error.message})`);
    });
  });
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}
