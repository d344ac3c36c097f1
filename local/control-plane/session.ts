/** One control plane per folder: its process listens on a socket that describes it and accepts a request to stop. */
import { rmSync } from "node:fs";
import { createConnection, createServer, type Server, type Socket } from "node:net";
import { tmpdir, userInfo } from "node:os";
import path from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { sha256Hex } from "../../src/util/hash.ts";
import { shellWord } from "../shell-word.ts";

export interface SessionInfo {
  readonly pid: number;
  readonly state: "starting" | "ready" | "stopping";
  readonly kubeconfig: string;
  readonly url?: string;
  /** Base URL of the gateway. Absent without one. */
  readonly baseUrl?: string | undefined;
  /** File with the address of the console. Absent without one. */
  readonly consoleFile?: string | undefined;
  /** Digest of the configuration with which kube-scheduler runs. */
  readonly schedulerConfig?: string | undefined;
}

export interface ControlPlaneSession {
  /** Accepts no new requests. A stop request in progress still gets its response. */
  readonly close: () => void;
}

interface SessionOptions {
  readonly dir: string;
  readonly info: () => SessionInfo;
  /** Called once per stop request. The connection ends when the promise settles. */
  readonly onStop: () => Promise<void>;
}

const MAX_SOCKET_PATH = 103;
/** Time limit for a busy process. A socket without a listener refuses at once. */
const ANSWER_TIMEOUT_MS = 10_000;

/** In the state folder if the system allows a socket path of that length, else in the temporary folder. */
export function socketPath(dir: string): string {
  const inStateFolder = path.join(path.resolve(dir), "up.sock");
  if (Buffer.byteLength(inStateFolder) <= MAX_SOCKET_PATH) return inStateFolder;
  const digest = sha256Hex(path.resolve(dir)).slice(0, 16);
  return path.join(tmpdir(), `metalbridge-${userInfo().uid}-${digest}.sock`);
}

/** Throws ControlPlaneRunning if another process uses the folder. A socket without a listener is replaced. */
export async function openSession(options: SessionOptions): Promise<ControlPlaneSession> {
  const file = socketPath(options.dir);
  const server = createServer((socket) => serve(socket, options));
  const first = await listen(server, file);
  if (first === "taken") {
    const response = await sendRequest(file, "info\n", ANSWER_TIMEOUT_MS);
    if (response !== undefined) throw running(options.dir, infoOf(response));
    rmSync(file, { force: true });
    if ((await listen(server, file)) === "taken") throw running(options.dir, undefined);
  }
  // Two processes may both have replaced a stale socket. The process that answers on the path owns the folder.
  const owner = await findControlPlaneSession(options.dir).catch(() => undefined);
  if (owner?.pid !== process.pid) {
    server.close();
    throw running(options.dir, owner);
  }
  return { close: () => void server.close() };
}

/** Finds the process that runs the control plane of this folder. Throws ControlPlanePartFailed if it does not answer. */
export async function findControlPlaneSession(
  dir: string,
  timeoutMs = ANSWER_TIMEOUT_MS,
): Promise<SessionInfo | undefined> {
  const response = await sendRequest(socketPath(dir), "info\n", timeoutMs);
  if (response === undefined) return undefined;
  const info = infoOf(response);
  if (info === undefined) throw unresponsive(dir);
  return info;
}

function infoOf(response: string): SessionInfo | undefined {
  try {
    return JSON.parse(response) as SessionInfo;
  } catch {
    return undefined;
  }
}

/** Resolves when the other process has stopped everything, or with false if there is none. */
export async function stopSession(dir: string, timeoutMs: number): Promise<boolean> {
  const response = await sendRequest(socketPath(dir), "stop\n", timeoutMs);
  return response !== undefined && response !== "";
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
      server.on("error", () => {}); // The client retries if no descriptor was free for its connection.
      resolve("listening");
    });
  });
}

/** Undefined without a listener; empty if the listener does not answer. */
function sendRequest(file: string, request: string, timeoutMs: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    const socket = createConnection(file);
    const finish = (response: string | undefined) => {
      socket.destroy();
      resolve(response);
    };
    socket.setTimeout(timeoutMs, () => finish(""));
    socket.once("connect", () => socket.write(request));
    socket.on("data", (chunk: Buffer) => chunks.push(chunk));
    socket.once("error", () => finish(undefined));
    socket.once("end", () => finish(Buffer.concat(chunks).toString("utf8") || undefined));
  });
}

function unresponsive(dir: string): MetalbridgeError {
  const message = `the process that runs a control plane on ${dir} does not answer`;
  return new MetalbridgeError("ControlPlanePartFailed", message, {
    summary: "kill the process, which also stops its parts",
    command: `kill -KILL $(lsof -t ${shellWord(socketPath(dir))})`,
  });
}

/** Throws ControlPlaneRunning if the process runs kube-scheduler without this configuration. Any is fine if `digest` is undefined. */
export function requireSchedulerConfig(dir: string, other: SessionInfo, digest: string | undefined): void {
  if (digest === undefined || digest === other.schedulerConfig) return;
  const message = `process ${other.pid} already runs a control plane in ${dir}, with another --scheduler-config or none`;
  throw new MetalbridgeError("ControlPlaneRunning", message, {
    summary: "stop it, then start it with the configuration",
    command: `npx metalbridge down --dir ${shellWord(dir)}`,
  });
}

function running(dir: string, other: SessionInfo | undefined): MetalbridgeError {
  const who = other === undefined ? "another process" : `process ${other.pid}`;
  return new MetalbridgeError("ControlPlaneRunning", `${who} already runs a control plane in ${dir}`, {
    summary: "use it, or stop it: Ctrl-C where it runs, or",
    command: `npx metalbridge down --dir ${shellWord(dir)}`,
  });
}
