/** `metalbridge attach`: connects this terminal to the terminal of a replica's program, on the host of the replica. */

import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import path from "node:path";
import type { Command } from "commander";
import {
  exitSchema,
  FrameReader,
  frame,
  type ProgramExit,
  type Size,
} from "../agent/instances/process/terminal/frames.ts";
import { undefinedIfMissing } from "../agent/remote/log-reader.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { TERMINAL_SOCKET } from "../src/supervise/run-directory.ts";
import { checkDetachKeys, KeySequence, parseDetachKeys } from "./attach/detach-keys.ts";
import { addNamespacedFlags } from "./cluster/flags.ts";
import type { LocalReplica } from "./logs/local.ts";
import {
  addLocalFlags,
  type LocalFlags,
  type LocalLookup,
  replicaArgument,
  useLocal,
} from "./logs/locate.ts";
import { printNote } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface AttachFlags extends LocalFlags {
  readonly readOnly?: boolean;
  readonly detachKeys: string;
}

/** The reason why an attachment ended. */
type AttachEnd = "detached" | "stopped" | "lost" | ProgramExit;

const SOUGHT: LocalLookup = {
  verb: "attach",
  what: "terminal",
  file: TERMINAL_SOCKET,
  codes: { elsewhere: "TerminalOnAnotherHost", missing: "TerminalNotFound", refused: "TerminalRefused" },
};
/** Resets what the program may have enabled: alternate screen, modes, mouse, bracketed paste. The cursor goes to the last line. */
const RESTORE =
  "\u001b[?1047l\u001b[!p\u001b[?1000;1002;1003;1004;1005;1006;1015;2004l\u001b[?25h\u001b[0m\u001b[999;1H\r\n";

/** Options and action of the verb. */
export function configureAttach(command: Command): void {
  const options = addNamespacedFlags(command)
    .addArgument(replicaArgument())
    .option("--read-only", "watch only: send no input, and do not resize the terminal of the program")
    .option(
      "--detach-keys <keys>",
      "key sequence that detaches and leaves the program running, such as ctrl-p,ctrl-q",
      checkDetachKeys,
      "ctrl-]",
    );
  addLocalFlags(options).action(attach);
}

async function attach(name: string, flags: AttachFlags): Promise<void> {
  const { stdin, stdout } = process;
  if (!stdin.isTTY || !stdout.isTTY) {
    const which = stdin.isTTY ? "output" : "input";
    throw new MetalbridgeError("NotATerminal", `standard ${which} is not a terminal`, {
      summary: "run the command in a terminal; to read the output of the program, use its log",
      command: `metalbridge logs ${name}`,
    });
  }
  await useLocal(name, flags, SOUGHT, async (replica) => {
    const socket = await open(replica);
    const ending = await join(socket, flags, `attached to ${replica.namespace}/${replica.name}`);
    printNote(describe(ending, replica));
  });
}

/** Connects from inside the folder, because the system limits the length of a socket path. */
async function open(replica: LocalReplica): Promise<Socket> {
  try {
    process.chdir(replica.dir);
    const socket = connect(TERMINAL_SOCKET);
    await once(socket, "connect");
    return socket;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ECONNREFUSED") throw notRunning(replica);
    throw error;
  }
}

function notRunning({ name, namespace, dir }: LocalReplica): MetalbridgeError {
  const record = undefinedIfMissing(() => readFileSync(path.join(dir, "engine.json"), "utf8"));
  const hasNoTty = record !== undefined && !/"tty": true/.test(record);
  const why = hasNoTty ? "its service does not set spec.tty: true" : "its program is not running";
  return new MetalbridgeError("TerminalNotFound", `${namespace}/${name} has no terminal: ${why}`, {
    summary: hasNoTty
      ? "set it (runtime generic only), or read the log"
      : "see what the replica is waiting for",
    command: `metalbridge ${hasNoTty ? "logs" : "describe"} ${name} -n ${namespace}`,
  });
}

/** Resolves when the detach keys are pressed, the program exits, or this command is stopped. */
async function join(socket: Socket, flags: AttachFlags, greeting: string): Promise<AttachEnd> {
  const { stdin, stdout } = process;
  const { readOnly = false, detachKeys } = flags;
  const stop = listenForStop();
  const isTyped = new KeySequence(parseDetachKeys(detachKeys));
  const size = (): Size => ({ columns: stdout.columns || 80, rows: stdout.rows || 24 });
  const onResize = () => socket.write(frame("resize", size()));
  becomeRaw();
  stdout.write(`${greeting}${readOnly ? " (read-only)" : ""}; ${detachKeys} detaches\r\n`);
  stdout.on("resize", onResize);
  socket.write(frame("hello", { ...size(), readOnly }));
  try {
    return await new Promise<AttachEnd>((resolve) => {
      const frames = new FrameReader();
      socket.on("data", (bytes) => {
        for (const { kind, payload } of frames.read(bytes)) {
          if (kind === "exit") resolve(exitSchema.parse(JSON.parse(payload.toString())));
          // A slow terminal slows down its own connection, not the program.
          if (kind === "output" && !stdout.write(payload)) waitForDrain(socket);
        }
      });
      socket.on("error", () => resolve("lost")).on("close", () => resolve("lost"));
      stdin.on("data", (typed: Buffer) => {
        const { passed, isComplete } = isTyped.take(typed);
        if (passed.length > 0 && !readOnly) socket.write(frame("input", passed));
        if (isComplete) resolve("detached");
      });
      stop.signal.addEventListener("abort", () => resolve("stopped"));
      stdin.on("end", () => resolve("stopped"));
    });
  } finally {
    stdout.off("resize", onResize);
    socket.destroy();
    stdin.setRawMode(false);
    stdin.pause();
    stdout.write(RESTORE);
  }
}

/** Node's raw mode still turns a line feed into two characters, which breaks full-screen programs. Leaving raw mode restores both. */
function becomeRaw(): void {
  process.stdin.setRawMode(true);
  spawnSync("stty", ["-opost"], { stdio: ["inherit", "ignore", "ignore"] });
}

function waitForDrain(socket: Socket): void {
  socket.pause();
  process.stdout.once("drain", () => socket.resume());
}

function describe(ending: AttachEnd, { namespace, name }: LocalReplica): string {
  const replica = `${namespace}/${name}`;
  if (ending === "detached" || ending === "stopped")
    return `detached from ${replica}; its program keeps running`;
  if (ending === "lost") return `the terminal of ${replica} has closed`;
  const exit =
    ending.signal === undefined ? `exited with code ${ending.code}` : `was ended by ${ending.signal}`;
  return `the program of ${replica} ${exit}`;
}
