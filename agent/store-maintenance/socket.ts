/** Server and client of the agent's socket for `metalbridge models`. Only the agent's user and root may open it. */
import { once } from "node:events";
import { chmod, rm } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { createLineSplitter } from "../../src/kube/watch/lines.ts";
import { systemCode } from "../../src/util/atomic-file.ts";
import { parseJson } from "../../src/util/parse-json.ts";
import type { Log } from "../../src/util/ports.ts";
import { existingSocketPath, socketPathFor } from "../state-dir/socket-path.ts";
import type { FetchProgress } from "../store/types.ts";
import { type CommandPorts, runModelCommand } from "./commands.ts";
import {
  MAX_COMMAND_BYTES,
  MAX_REPLY_BYTES,
  type ModelCommand,
  type ModelReply,
  type ModelResult,
  modelCommandSchema,
} from "./protocol.ts";

const SOCKET = "models.sock";
/** Each connection may hold a command in memory. */
const MAX_CONNECTIONS = 32;
/** Time limit for receiving a command. */
const COMMAND_MS = 10_000;
/** Time limit for a reply. Commands that download or hash weights have no limit, because they may run for hours. */
const REPLY_MS = 60_000;

export interface ModelSocketOptions extends CommandPorts {
  readonly stateDir: string;
  readonly tempDir: string;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Time limit for receiving a command; absent: 10 s. */
  readonly commandMs?: number;
  /** Called after each command, which may have changed the Host's status. */
  readonly onDone?: () => void;
}

/** Listens until the signal is aborted. The caller must hold the lock of the state folder, so an existing socket is stale. */
export async function serveModelCommands(options: ModelSocketOptions): Promise<void> {
  const { stateDir, tempDir, signal, log } = options;
  const path = await socketPathFor(join(stateDir, SOCKET), tempDir);
  await rm(path, { force: true });
  const server = createServer((socket) => void answer(socket, options));
  server.maxConnections = MAX_CONNECTIONS;
  await once(server.listen(path), "listening");
  // A connection that cannot be accepted (too many open files) must not stop the agent.
  server.on("error", (err) => log.warn({ err }, "cannot accept a connection of metalbridge models"));
  await chmod(path, 0o600);
  server.unref();
  signal.addEventListener("abort", () => server.close(), { once: true });
  if (signal.aborted) server.close();
}

/** Runs one command per connection. The command is aborted when its client disconnects. */
async function answer(socket: Socket, options: ModelSocketOptions): Promise<void> {
  const left = new AbortController();
  const signal = AbortSignal.any([left.signal, options.signal]);
  socket.on("error", () => left.abort());
  socket.on("close", () => left.abort());
  options.signal.addEventListener("abort", () => socket.destroy(), { signal: left.signal });
  const send = (reply: ModelReply) => socket.write(`${JSON.stringify(reply)}\n`);
  try {
    socket.setTimeout(options.commandMs ?? COMMAND_MS, () => socket.destroy());
    const command = await readCommand(socket);
    if (command === undefined) return;
    socket.setTimeout(0);
    // Reading the command paused the socket. A paused socket does not notice that the client disconnects.
    socket.resume();
    const onProgress = throttled((progress) => void send({ at: "progress", progress }));
    send(await runModelCommand(command, options, { signal, onProgress }));
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof MetalbridgeError)) options.log.error({ err: error }, "metalbridge models failed");
    const { code, message, remedy } =
      error instanceof MetalbridgeError
        ? error
        : new MetalbridgeError("ModelCommandFailed", error instanceof Error ? error.message : String(error));
    send({ at: "failed", code, message, remedy });
  } finally {
    options.onDone?.();
    socket.end();
  }
}

/** Undefined if the client disconnected before it sent a command. Throws ModelCommandFailed for an unknown command. */
async function readCommand(socket: Socket): Promise<ModelCommand | undefined> {
  for await (const line of linesOf(socket, MAX_COMMAND_BYTES)) {
    const parsed = modelCommandSchema.safeParse(parseJson(line));
    if (parsed.success) return parsed.data;
    throw new MetalbridgeError("ModelCommandFailed", "the agent does not know this command");
  }
  return undefined;
}

const PROGRESS_MS = 200;

function throttled(report: (progress: FetchProgress) => void): (progress: FetchProgress) => void {
  let nextMs = 0;
  return (progress) => {
    const nowMs = performance.now();
    if (nowMs < nextMs && progress.bytes !== progress.totalBytes) return;
    nextMs = nowMs + PROGRESS_MS;
    report(progress);
  };
}

/** Sends a command to the agent of a state folder. Undefined if no agent listens. Throws the agent's failure, and StoreUnreadable for other users. */
export async function sendModelCommand(
  place: { readonly stateDir: string; readonly tempDir: string },
  command: ModelCommand,
  run: { readonly signal: AbortSignal; readonly onProgress?: (progress: FetchProgress) => void },
): Promise<ModelResult | undefined> {
  const socket = connect(existingSocketPath(join(place.stateDir, SOCKET), place.tempDir));
  const failed = new Promise<"none" | "refused">((resolve, reject) => {
    socket.on("error", (error) => {
      const code = systemCode(error);
      if (code === "ENOENT" || code === "ECONNREFUSED" || code === "ENOTDIR") resolve("none");
      else if (code === "EACCES" || code === "EPERM") resolve("refused");
      else reject(error);
    });
  });
  run.signal.addEventListener("abort", () => socket.destroy(run.signal.reason), { once: true });
  socket.write(`${JSON.stringify(command)}\n`);
  if (command.do !== "pull" && command.do !== "verify")
    socket.setTimeout(REPLY_MS, () => {
      const message = `the agent of ${place.stateDir} does not answer`;
      socket.destroy(new MetalbridgeError("ModelCommandFailed", message));
    });
  const result = await Promise.race([readReplies(socket, run), failed]).finally(() => socket.destroy());
  if (result === "none") return undefined;
  if (result !== "refused") return result;
  throw new MetalbridgeError("StoreUnreadable", `this user may not talk to the agent of ${place.stateDir}`);
}

async function readReplies(
  socket: Socket,
  { onProgress }: Parameters<typeof sendModelCommand>[2],
): Promise<ModelResult> {
  for await (const line of linesOf(socket, MAX_REPLY_BYTES)) {
    // The reply is trusted, because the agent runs as the same user.
    const reply = parseJson(line) as ModelReply;
    if (reply.at === "progress") onProgress?.(reply.progress);
    else if (reply.at === "failed") throw new MetalbridgeError(reply.code, reply.message, reply.remedy);
    else return reply;
  }
  throw new MetalbridgeError("ModelCommandFailed", "the agent stopped before it had answered");
}

/** Throws ModelCommandFailed for a line that is too long. The socket remains open. */
async function* linesOf(socket: Socket, limitBytes: number): AsyncGenerator<string> {
  const lines = createLineSplitter(limitBytes);
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    let complete: string[];
    try {
      complete = lines.push(chunk as Buffer);
    } catch (cause) {
      throw new MetalbridgeError(
        "ModelCommandFailed",
        `a line is longer than ${limitBytes} bytes`,
        undefined,
        { cause },
      );
    }
    yield* complete;
  }
}
