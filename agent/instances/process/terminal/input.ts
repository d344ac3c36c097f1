/** What is typed, on its way to the program: bounded, where node-pty's own queue has no end and spins while nothing is read. */
import { writeSync } from "node:fs";

const MAX_WAITING_BYTES = 1 << 20;
const RETRY_MS = 20;

export class Input {
  readonly #fd: number;
  #waiting = Buffer.alloc(0);
  #retry: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** `fd`: the terminal's, not blocking. */
  constructor(fd: number) {
    this.#fd = fd;
  }

  /** False: the program has not read what was typed before, and this is dropped. */
  write(bytes: string | Uint8Array): boolean {
    const more = Buffer.from(bytes);
    if (this.#isClosed || this.#waiting.length + more.length > MAX_WAITING_BYTES) return false;
    this.#waiting = Buffer.concat([this.#waiting, more]);
    if (this.#retry === undefined) this.#send();
    return true;
  }

  /** Before the descriptor's number may belong to another file. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#retry);
  }

  #send(): void {
    this.#retry = undefined;
    try {
      while (this.#waiting.length > 0) {
        this.#waiting = this.#waiting.subarray(writeSync(this.#fd, this.#waiting));
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EAGAIN") {
        this.#retry = setTimeout(() => this.#send(), RETRY_MS).unref();
      } else {
        this.#waiting = Buffer.alloc(0);
      }
    }
  }
}
