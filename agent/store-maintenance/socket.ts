/** The agent's socket for `metalbridge models`: who may open it is its user and root. Both ends are here. */
import { chmod, rm } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { createLineSplitter } from "../../src/kube/watch/lines.ts";
import { systemCode } from "../../src/util/atomic-file.ts";
import type { Log } from "../../src/util/ports.ts";
import { existingSocketPath, socketPathFor } from "../state-dir/socket-path.ts";
import type { FetchProgress } from "../store/types.ts";
import { type CommandPorts, runModelCommand } from "./commands.ts";
import {
  COMMAND_BYTES_MAX,
  type ModelCommand,
  type ModelReply,
  type ModelResult,
  modelCommandSchema,
  REPLY_BYTES_MAX,
} from "./protocol.ts";

/** Each may hold a command in memory. */
const MAX_CONNECTIONS = 32;
/** For a command to arrive. */
const COMMAND_MS = 10_000;
/** For an answer to what neither downloads nor reads weights: those may wait for hours, and the user may interrupt them. */
const REPLY_MS = 60_000;

export interface ModelSocketOptions extends CommandPorts {
  readonly stateDir: string;
  readonly tempDir: string;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** For a command to arrive; absent: 10 s. */
  readonly commandMs?: number;
  /** A command may have changed what Host.status shows. */
  readonly onDone?: () => void;
}

/** Listens until the signal is aborted. The state folder must be locked: a socket that is there is a dead one. */
export async function serveModelCommands(options: ModelSocketOptions): Promise<void> {
  const { stateDir, tempDir, signal, log } = options;
  const path = await socketPathFor(besideOf(stateDir), tempDir);
  await rm(path, { force: true });
  const server = createServer((socket) => void answer(socket, options));
  server.maxConnections = MAX_CONNECTIONS;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(path, resolve);
  });
  await chmod(path, 0o600);
  // A connection that cannot be accepted (too many open files) must not stop the agent.
  server.on("error", (err) => log.warn({ err }, "cannot accept a connection of metalbridge models"));
  server.unref();
  signal.addEventListener("abort", () => server.close(), { once: true });
  if (signal.aborted) server.close();
}

/** One command for each connection; a client that leaves ends what it asked for. */
async function answer(socket: Socket, options: ModelSocketOptions): Promise<void> {
  const left = new AbortController();
  const signal = AbortSignal.any([left.signal, options.signal]);
  socket.on("error", () => left.abort());
  socket.on("close", () => left.abort());
  options.signal.addEventListener("abort", () => socket.destroy(), { signal: left.signal });
  const say = (reply: ModelReply) => socket.write(`${JSON.stringify(reply)}\n`);
  try {
    socket.setTimeout(options.commandMs ?? COMMAND_MS, () => socket.destroy());
    const command = await readCommand(socket);
    if (command === undefined) return;
    socket.setTimeout(0);
    // Reading has paused it; a paused socket does not notice that the client leaves.
    socket.resume();
    const onProgress = (progress: FetchProgress) => void say({ at: "progress", progress });
    say(await runModelCommand(command, options, { signal, onProgress: everySoOften(onProgress) }));
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof MetalbridgeError)) options.log.error({ err: error }, "metalbridge models failed");
    const { code, remedy } = error instanceof MetalbridgeError ? error : unexpected(error);
    say({ at: "failed", code, message: error instanceof Error ? error.message : String(error), remedy });
  } finally {
    options.onDone?.();
    socket.end();
  }
}

function unexpected(error: unknown): MetalbridgeError {
  return new MetalbridgeError("ModelCommandFailed", String(error), undefined, { cause: error });
}

/** Undefined when the client left before it had asked. Throws ModelCommandFailed for what this version does not know. */
async function readCommand(socket: Socket): Promise<ModelCommand | undefined> {
  for await (const line of linesOf(socket, COMMAND_BYTES_MAX)) {
    const parsed = modelCommandSchema.safeParse(jsonOf(line));
    if (parsed.success) return parsed.data;
    throw new MetalbridgeError("ModelCommandFailed", "the agent does not know this command");
  }
  return undefined;
}

const PROGRESS_MS = 200;

function everySoOften(report: (progress: FetchProgress) => void): (progress: FetchProgress) => void {
  let nextMs = 0;
  return (progress) => {
    const nowMs = performance.now();
    if (nowMs < nextMs && progress.bytes !== progress.totalBytes) return;
    nextMs = nowMs + PROGRESS_MS;
    report(progress);
  };
}

/** Asks the agent of a state folder. Undefined when none listens; throws what the agent refuses, and StoreUnreadable for other users. */
export async function sendModelCommand(
  place: { readonly stateDir: string; readonly tempDir: string },
  command: ModelCommand,
  run: { readonly signal: AbortSignal; readonly onProgress?: (progress: FetchProgress) => void },
): Promise<ModelResult | undefined> {
  const socket = connect(existingSocketPath(besideOf(place.stateDir), place.tempDir));
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
    socket.setTimeout(REPLY_MS, () => socket.destroy(tooSlow(place.stateDir)));
  const answered = await Promise.race([readReplies(socket, run), failed]).finally(() => socket.destroy());
  if (answered === "none") return undefined;
  if (answered !== "refused") return answered;
  throw new MetalbridgeError("StoreUnreadable", `this user may not talk to the agent of ${place.stateDir}`);
}

async function readReplies(
  socket: Socket,
  { onProgress }: Parameters<typeof sendModelCommand>[2],
): Promise<ModelResult> {
  for await (const line of linesOf(socket, REPLY_BYTES_MAX)) {
    // The other end is the agent of this very user.
    const reply = jsonOf(line) as ModelReply;
    if (reply.at === "progress") onProgress?.(reply.progress);
    else if (reply.at === "failed") throw new MetalbridgeError(reply.code, reply.message, reply.remedy);
    else return reply;
  }
  throw new MetalbridgeError("ModelCommandFailed", "the agent stopped before it had answered");
}

function tooSlow(stateDir: string): MetalbridgeError {
  return new MetalbridgeError("ModelCommandFailed", `the agent of ${stateDir} does not answer`);
}

/** Throws ModelCommandFailed for a line that is too long. The socket stays open. */
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

function besideOf(stateDir: string): string {
  return join(stateDir, "models.sock");
}

function jsonOf(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
