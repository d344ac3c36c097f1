/** Clients attached to a terminal. Each draws the program's output itself; the smallest client that may type determines the size. */
import { createServer, type Socket } from "node:net";
import {
  type FrameKind,
  FrameReader,
  frame,
  helloSchema,
  type ProgramExit,
  resizeSchema,
  type Size,
} from "./frames.ts";

/** A client that reads too slowly misses output, and is then treated as newly attached. */
const MAX_UNREAD_BYTES = 1 << 20;
/** Programs ignore a resize to the size that they have, so the other size must last until they have read it. */
const REPAINT_MS = 100;
const BELL = "\u0007";
/** Private modes, such as mouse reports or the alternate screen. At most 4 digits, so that a program cannot fill memory. */
const MODES = /\p{Cc}\[\?((?:\d{1,4};){0,15}\d{1,4})([hl])/gu;
const QUERIES = /\p{Cc}\[([56]n|0?c)/gu;
/** Replies of a terminal without a client: ready, cursor at the origin, VT100. Programs wait for them. */
const REPLIES: Readonly<Record<string, string>> = {
  "5n": "\u001b[0n",
  "6n": "\u001b[1;1R",
  c: "\u001b[?1;2c",
  "0c": "\u001b[?1;2c",
};
const START_OF_LINE = "\u001b[0m\r\u001b[K";

interface Attacher {
  readonly socket: Socket;
  size: Size;
  readonly mayType: boolean;
  isLagging: boolean;
}

export interface AttachPorts {
  /** The last lines of the output as plain text. */
  readonly recent: () => string;
  /** False if the input was dropped. */
  readonly type: (bytes: string | Uint8Array) => boolean;
  readonly resize: (size: Size) => void;
}

export class Attachers {
  readonly #all = new Set<Attacher>();
  readonly #ports: AttachPorts;
  readonly #modes = new Map<string, string>();
  #size: Size;
  #repaint: NodeJS.Timeout | undefined;

  constructor(firstSize: Size, ports: AttachPorts) {
    this.#size = firstSize;
    this.#ports = ports;
  }

  /** Listens on a socket that only the agent's user may connect to. */
  listen(path: string): Promise<void> {
    const server = createServer((socket) => this.#greet(socket));
    process.umask(0o177);
    return new Promise((resolve, reject) => {
      server.on("error", reject);
      server.listen(path, resolve);
    });
  }

  /** `output` ends with no incomplete escape sequence, so that a client misses whole ones only. */
  print(output: string): void {
    for (const [, numbers = "", state = ""] of output.matchAll(MODES))
      for (const number of numbers.split(";")) this.#modes.set(number, state);
    if (![...this.#all].some(({ mayType }) => mayType))
      for (const [, query = ""] of output.matchAll(QUERIES)) this.#ports.type(REPLIES[query] ?? "");
    const bytes = frame("output", output);
    for (const one of this.#all) {
      if (one.isLagging) continue;
      one.socket.write(bytes);
      one.isLagging = one.socket.writableLength > MAX_UNREAD_BYTES;
    }
  }

  /** Sends the exit to all clients. Resolves once they have received it. */
  async end(exit: ProgramExit): Promise<void> {
    const ended = [...this.#all].map(
      ({ socket }) => new Promise<void>((resolve) => socket.on("close", resolve).end(frame("exit", exit))),
    );
    await Promise.all(ended);
  }

  #greet(socket: Socket): void {
    const reader = new FrameReader();
    let attacher: Attacher | undefined;
    socket.on("error", () => {});
    socket.on("close", () => {
      if (attacher !== undefined && this.#all.delete(attacher)) this.#fit();
    });
    socket.on("data", (bytes) => {
      try {
        for (const { kind, payload } of reader.read(bytes)) {
          if (attacher === undefined && kind === "hello") attacher = this.#attach(socket, payload);
          else if (attacher !== undefined) this.#receive(attacher, kind, payload);
        }
      } catch {
        socket.destroy();
      }
    });
  }

  #attach(socket: Socket, payload: Buffer): Attacher {
    const { readOnly, ...size } = helloSchema.parse(JSON.parse(payload.toString()));
    const attacher: Attacher = { socket, size, mayType: !readOnly, isLagging: false };
    this.#all.add(attacher);
    this.#catchUp(attacher);
    socket.on("drain", () => {
      if (attacher.isLagging) this.#catchUp(attacher);
    });
    return attacher;
  }

  /** Sends the last lines and the modes, and has the program repaint, because only the program knows its screen. */
  #catchUp(attacher: Attacher): void {
    attacher.isLagging = false;
    const lines = this.#ports.recent().replaceAll("\n", "\r\n");
    const modes = [...this.#modes].map(([number, state]) => `\u001b[?${number}${state}`).join("");
    attacher.socket.write(frame("output", START_OF_LINE + lines + modes));
    this.#fit(true);
  }

  #receive(attacher: Attacher, kind: FrameKind | undefined, payload: Buffer): void {
    if (kind === "resize") {
      attacher.size = resizeSchema.parse(JSON.parse(payload.toString()));
      this.#fit();
    } else if (kind === "input" && attacher.mayType && !this.#ports.type(payload)) {
      attacher.socket.write(frame("output", BELL));
    }
  }

  /** Clients that only read affect the size only for the moment of a repaint; without any other client the last size is kept. */
  #fit(mustRepaint = false): void {
    const { columns, rows } = this.#size;
    const sizes = [...this.#all].filter(({ mayType }) => mayType).map(({ size }) => size);
    if (sizes.length > 0) {
      this.#size = {
        columns: Math.min(...sizes.map((one) => one.columns)),
        rows: Math.min(...sizes.map((one) => one.rows)),
      };
    }
    const isChanged = this.#size.columns !== columns || this.#size.rows !== rows;
    if (!isChanged && !mustRepaint) return;
    clearTimeout(this.#repaint);
    if (isChanged) {
      this.#ports.resize(this.#size);
    } else {
      this.#ports.resize({ columns, rows: rows === 1 ? 2 : rows - 1 });
      this.#repaint = setTimeout(() => this.#ports.resize(this.#size), REPAINT_MS);
    }
  }
}
