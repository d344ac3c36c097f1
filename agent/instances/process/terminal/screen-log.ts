/** Converts a terminal's output to log lines: without escape sequences, and with only the final state of a rewritten line. */
import { stripVTControlCharacters } from "node:util";

/** A longer line is split. */
const MAX_LINE = 8_192;
const ESC = "\u001b";
const BEL = "\u0007";
/** An incomplete escape sequence at the end of a chunk, which the next chunk completes. */
const OPEN_SEQUENCE = new RegExp(
  `${ESC}(?:[\\]PX^_][^${BEL}${ESC}]{0,4096}${ESC}?|\\[[0-?]{0,64}[ -/]{0,8}|[ -/]{0,8})?$`,
);
/** Device strings, which Node's function does not remove. */
const DEVICE_STRING = new RegExp(`${ESC}[PX^_][^${BEL}${ESC}]*(?:${BEL}|${ESC}\\\\)?`, "g");
/** Other control characters, such as bells and shifts. Tab, newline, carriage return and backspace are interpreted. */
const OTHER_CONTROLS = /[^\P{Cc}\t\n\r\b]+/gu;

export class ScreenLog {
  readonly #write: (text: string) => void;
  #open = "";
  #line = "";
  /** Length of the part of the line that was already logged. */
  #logged = 0;
  /** Set after a carriage return: the next output overwrites the line. */
  #isReturned = false;

  constructor(write: (text: string) => void) {
    this.#write = write;
  }

  /** True if the last line has text that was not logged yet. */
  get hasUnlogged(): boolean {
    return this.#line.length > this.#logged;
  }

  /** Returns what was added, up to an incomplete escape sequence at the end, which the next call returns. */
  add(output: string): string {
    const text = this.#open + output;
    this.#open = OPEN_SEQUENCE.exec(text)?.[0] ?? "";
    const complete = text.slice(0, text.length - this.#open.length);
    const bare = complete.includes(ESC)
      ? stripVTControlCharacters(complete.replace(DEVICE_STRING, ""))
      : complete;
    const plain = bare.replaceAll("\r\n", "\n").replace(OTHER_CONTROLS, "");
    // Fast path for a flood of ordinary lines.
    const bulk = !this.#isReturned && !/[\r\b]/.test(plain) ? plain.lastIndexOf("\n") + 1 : 0;
    let log = "";
    if (bulk > 0) {
      log = this.#unlogged() + plain.slice(0, bulk);
      this.#startLine();
    }
    for (const [part] of plain.slice(bulk).matchAll(/[^\r\n\b]+|[\r\n\b]/g)) log += this.#take(part);
    if (log !== "") this.#write(log);
    return complete;
  }

  /** Logs the unfinished last line: a prompt that waits for input, or the end of the output. */
  flush(): void {
    const unlogged = this.#unlogged();
    if (unlogged !== "") this.#write(unlogged);
  }

  #take(part: string): string {
    if (part === "\n") {
      const ended = `${this.#unlogged()}\n`;
      this.#startLine();
      return ended;
    }
    if (part === "\r") {
      this.#isReturned = true;
      return "";
    }
    if (part === "\b") {
      if (this.#line.length > this.#logged) this.#line = this.#line.slice(0, -1);
      return "";
    }
    let log = "";
    if (this.#isReturned) {
      if (this.#logged > 0) log = `${this.#unlogged()}\n`;
      this.#startLine();
    }
    this.#line += part;
    if (this.#line.length - this.#logged > MAX_LINE) log += this.#unlogged();
    return log;
  }

  #unlogged(): string {
    const unlogged = this.#line.slice(this.#logged);
    this.#logged = this.#line.length;
    if (this.#line.length > MAX_LINE) {
      this.#line = this.#line.slice(-1);
      this.#logged = 1;
    }
    return unlogged;
  }

  #startLine(): void {
    this.#line = "";
    this.#logged = 0;
    this.#isReturned = false;
  }
}
