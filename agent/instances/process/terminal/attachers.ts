/** Clients attached to a terminal. Each first receives the screen, then all output. The smallest client that may type determines the size. */
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
import type { TerminalScreen } from "./screen.ts";

/** A client that reads too slowly misses output, and then receives the screen again. */
const MAX_UNREAD_BYTES = 1 << 20;
const BELL = "\u0007";

interface Attacher {
  readonly socket: Socket;
  size: Size;
  readonly mayType: boolean;
  isDrawn: boolean;
}

export interface AttachPorts {
  readonly screen: TerminalScreen;
  /** False if the input was dropped. */
  readonly type: (bytes: Buffer) => boolean;
  readonly resize: (size: Size) => void;
}

export class Attachers {
  readonly #all = new Set<Attacher>();
  readonly #ports: AttachPorts;

  constructor(ports: AttachPorts) {
    this.#ports = ports;
  }

  /** True if the terminal of an attached client answers the program's queries. */
  get canAnswer(): boolean {
    return [...this.#all].some(({ mayType }) => mayType);
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

  print(output: string): void {
    const bytes = frame("output", output);
    for (const one of this.#all) {
      if (!one.isDrawn) continue;
      one.socket.write(bytes);
      if (one.socket.writableLength > MAX_UNREAD_BYTES) one.isDrawn = false;
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
    const attacher: Attacher = { socket, size, mayType: !readOnly, isDrawn: false };
    this.#all.add(attacher);
    this.#fit();
    this.#draw(attacher, true);
    socket.on("drain", () => {
      if (!attacher.isDrawn) this.#draw(attacher, false);
    });
    return attacher;
  }

  #draw(attacher: Attacher, withHistory: boolean): void {
    this.#ports.screen.draw({ withHistory }, (text) => {
      attacher.isDrawn = true;
      attacher.socket.write(frame("output", text));
    });
  }

  #receive(attacher: Attacher, kind: FrameKind | undefined, payload: Buffer): void {
    if (kind === "resize") {
      attacher.size = resizeSchema.parse(JSON.parse(payload.toString()));
      this.#fit();
    } else if (kind === "input" && attacher.mayType && !this.#ports.type(payload)) {
      attacher.socket.write(frame("output", BELL));
    }
  }

  /** Clients that only read do not affect the size; without any other client the last size is kept. */
  #fit(): void {
    const sizes = [...this.#all].filter(({ mayType }) => mayType).map(({ size }) => size);
    if (sizes.length === 0) return;
    this.#ports.resize({
      columns: Math.min(...sizes.map(({ columns }) => columns)),
      rows: Math.min(...sizes.map(({ rows }) => rows)),
    });
  }
}
