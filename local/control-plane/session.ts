/** One control plane per folder: its process listens on a socket that describes it and accepts a request to stop. */
import { createHash } from "node:crypto";
import { rmSync } from "node:fs";
import { createConnection, createServer, type Server, type Socket } from "node:net";
import { tmpdir, userInfo } from "node:os";
import path from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { shellWord } from "../shell-word.ts";

export interface SessionInfo {
  readonly pid: number;
  readonly state: "starting" | "ready" | "stopping";
  readonly kubeconfig: string;
  readonly url?: string;
}

export interface ControlPlaneSession {
  /** No longer answers new questions; an order to stop that is being carried out still gets its answer. */
  readonly close: () => void;
}

interface SessionOptions {
  readonly dir: string;
  readonly info: () => SessionInfo;
  /** Called at most once per order; the connection ends when it has finished. */
  readonly onStop: () => Promise<void>;
}

const MAX_SOCKET_PATH = 103;
/** A socket without a listener refuses at once: this is for a process that is busy. */
const ANSWER_TIMEOUT_MS = 10_000;

/** Beside the state where the system's limit on socket names allows it, else in the temporary folder. */
export function socketPath(dir: string): string {
  const beside = path.join(path.resolve(dir), "up.sock");
  if (Buffer.byteLength(beside) <= MAX_SOCKET_PATH) return beside;
  const digest = createHash("sha256").update(path.resolve(dir)).digest("hex").slice(0, 16);
  return path.join(tmpdir(), `metalbridge-${userInfo().uid}-${digest}.sock`);
}

/** Throws ControlPlaneRunning when another process holds the folder; a socket without a listener is replaced. */
export async function openSession(options: SessionOptions): Promise<ControlPlaneSession> {
  const file = socketPath(options.dir);
  const server = createServer((socket) => serve(socket, options));
  const first = await listen(server, file);
  if (first === "taken") {
    const answer = await ask(file, "info\n", ANSWER_TIMEOUT_MS);
    if (answer !== undefined) throw running(options.dir, infoOf(answer));
    rmSync(file, { force: true });
    if ((await listen(server, file)) === "taken") throw running(options.dir, undefined);
  }
  // Two starters may both have replaced a dead socket; the one that the name now leads to has won.
  const owner = await findControlPlaneSession(options.dir).catch(() => undefined);
  if (owner?.pid !== process.pid) {
    server.close();
    throw running(options.dir, owner);
  }
  return { close: () => void server.close() };
}

/** The process that runs the control plane of this folder, if any. Throws ControlPlanePartFailed when it does not answer. */
export async function findControlPlaneSession(
  dir: string,
  timeoutMs = ANSWER_TIMEOUT_MS,
): Promise<SessionInfo | undefined> {
  const answer = await ask(socketPath(dir), "info\n", timeoutMs);
  if (answer === undefined) return undefined;
  const info = infoOf(answer);
  if (info === undefined) throw silent(dir);
  return info;
}

function infoOf(answer: string): SessionInfo | undefined {
  try {
    return JSON.parse(answer) as SessionInfo;
  } catch {
    return undefined;
  }
}

/** Resolves when the other process has stopped everything; false when there was none. */
export async function stopSession(dir: string, timeoutMs: number): Promise<boolean> {
  const answer = await ask(socketPath(dir), "stop\n", timeoutMs);
  return answer !== undefined && answer !== "";
}

function serve(socket: Socket, options: SessionOptions): void {
  socket.on("error", () => socket.destroy());
  socket.setTimeout(120_000, () => socket.destroy());
  socket.once("data", (chunk: Buffer) => {
    if (chunk.toString("utf8") !== "stop\n") {
      socket.end(`${JSON.stringify(options.info())}\n`);
      return;
    }
    const done = () => socket.end("stopped\n");
    options.onStop().then(done, done);
  });
}

function listen(server: Server, file: string): Promise<"listening" | "taken"> {
  return new Promise((resolve, reject) => {
    const onError = (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") resolve("taken");
      else {
        reject(
          new MetalbridgeError("StateFolderUnusable", `cannot listen on ${file}`, undefined, {
            cause: error,
          }),
        );
      }
    };
    server.once("error", onError);
    server.listen(file, () => {
      server.off("error", onError);
      server.on("error", () => {}); // the client retries a connection that no descriptor was free for
      resolve("listening");
    });
  });
}

/** Undefined: there is no listener. Empty: it is silent. */
function ask(file: string, question: string, timeoutMs: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    const socket = createConnection(file);
    const finish = (answer: string | undefined) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(timeoutMs, () => finish(""));
    socket.once("connect", () => socket.write(question));
    socket.on("data", (chunk: Buffer) => chunks.push(chunk));
    socket.once("error", () => finish(undefined));
    socket.once("end", () => finish(Buffer.concat(chunks).toString("utf8") || undefined));
  });
}

/** Only the system knows which process holds the socket. */
function silent(dir: string): MetalbridgeError {
  const message = `the process that runs a control plane on ${dir} does not answer`;
  return new MetalbridgeError("ControlPlanePartFailed", message, {
    summary: "end it by force; its parts end with it",
    command: `kill -KILL $(lsof -t ${shellWord(socketPath(dir))})`,
  });
}

function running(dir: string, other: SessionInfo | undefined): MetalbridgeError {
  const who = other === undefined ? "another process" : `process ${other.pid}`;
  return new MetalbridgeError("ControlPlaneRunning", `${who} already runs a control plane in ${dir}`, {
    summary: "use it, or stop it: Ctrl-C where it runs, or",
    command: `npx metalbridge down --dir ${shellWord(dir)}`,
  });
}
