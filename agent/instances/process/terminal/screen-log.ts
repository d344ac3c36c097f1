/** What a terminal shows, as lines for a log: without escape sequences, and of a line that is rewritten only how it ended up. */
import { stripVTControlCharacters } from "node:util";

/** A longer line is logged in pieces. */
const MAX_LINE = 8_192;
const ESC = "\u001b";
const BEL = "\u0007";
/** The beginning of an escape sequence at the end of a piece: the rest comes with the next one. */
const OPEN_SEQUENCE = new RegExp(
  `${ESC}(?:[\\]PX^_][^${BEL}${ESC}]{0,4096}${ESC}?|\\[[0-?]{0,64}[ -/]{0,8}|[ -/]{0,8})?$`,
);
/** Device strings, which Node's function leaves in. */
const DEVICE_STRING = new RegExp(`${ESC}[PX^_][^${BEL}${ESC}]*(?:${BEL}|${ESC}\\\\)?`, "g");
/** What is left of control characters: bells, shifts. Tab, newline, carriage return and backspace mean something here. */
const OTHER_CONTROLS = /[^\P{Cc}\t\n\r\b]+/gu;

export class ScreenLog {
  readonly #write: (text: string) => void;
  #open = "";
  #line = "";
  /** How much of the line is in the log already. */
  #logged = 0;
  /** A carriage return has come: what is printed next overwrites the line. */
  #isReturned = false;

  constructor(write: (text: string) => void) {
    this.#write = write;
  }

  /** Whether the last line has text that is not in the log yet. */
  get hasUnlogged(): boolean {
    return this.#line.length > this.#logged;
  }

  add(output: string): void {
    const text = this.#open + output;
    this.#open = OPEN_SEQUENCE.exec(text)?.[0] ?? "";
    const complete = text.slice(0, text.length - this.#open.length);
    const bare = complete.includes(ESC) ? stripVTControlCharacters(complete.replace(DEVICE_STRING, "")) : complete;
    const plain = bare.replaceAll("\r\n", "\n").replace(OTHER_CONTROLS, "");
    // A flood of ordinary lines goes by as a whole.
    const bulk = !this.#isReturned && !/[\r\b]/.test(plain) ? plain.lastIndexOf("\n") + 1 : 0;
    let log = "";
    if (bulk > 0) {
      log = this.#unlogged() + plain.slice(0, bulk);
      this.#startLine();
    }
    for (const [part] of plain.slice(bulk).matchAll(/[^\r\n\b]+|[\r\n\b]/g)) log += this.#take(part);
    if (log !== "") this.#write(log);
  }

  /** Logs what the last line has so far: a prompt that waits, or the end. */
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
