/** Typed input for the program, in a bounded queue: node-pty's own queue is unbounded and spins while the program does not read. */
import { writeSync } from "node:fs";

const MAX_PENDING_BYTES = 1 << 20;
const RETRY_MS = 20;

export class Input {
  readonly #fd: number;
  #pending = Buffer.alloc(0);
  #retry: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** `fd`: the terminal's descriptor, in non-blocking mode. */
  constructor(fd: number) {
    this.#fd = fd;
  }

  /** False if the input was dropped because the program has not read earlier input. */
  write(bytes: string | Uint8Array): boolean {
    const more = Buffer.from(bytes);
    if (this.#isClosed || this.#pending.length + more.length > MAX_PENDING_BYTES) return false;
    this.#pending = Buffer.concat([this.#pending, more]);
    if (this.#retry === undefined) this.#send();
    return true;
  }

  /** Call it before the descriptor is closed, because its number may be reused. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#retry);
  }

  #send(): void {
    this.#retry = undefined;
    try {
      while (this.#pending.length > 0) {
        this.#pending = this.#pending.subarray(writeSync(this.#fd, this.#pending));
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EAGAIN") {
        this.#retry = setTimeout(() => this.#send(), RETRY_MS).unref();
      } else {
        this.#pending = Buffer.alloc(0);
      }
    }
  }
}
