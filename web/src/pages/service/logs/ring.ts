/** The newest lines of a log. A line stays the text that the server sent, and becomes an object only when it is shown. Pure. */
import type { LogLine } from "../../../../../src/console/protocol.ts";

export const MAX_LINES = 100_000;

export class LogRing {
  readonly #capacity: number;
  readonly #lines: string[] = [];
  #first = 0;
  #dropped = 0;

  constructor(capacity = MAX_LINES) {
    this.#capacity = capacity;
  }

  get length(): number {
    return this.#lines.length;
  }

  /** Lines that made room for newer ones. */
  get dropped(): number {
    return this.#dropped;
  }

  push(lines: readonly string[]): void {
    for (const line of lines)
      if (this.#lines.length < this.#capacity) this.#lines.push(line);
      else {
        this.#lines[this.#first] = line;
        this.#first = (this.#first + 1) % this.#capacity;
        this.#dropped += 1;
      }
  }

  /** 0 is the oldest. */
  at(index: number): LogLine {
    return parseLogLine(this.#lines[(this.#first + index) % this.#capacity] ?? "");
  }

  /** As a file: the time, the replica where there are several, the line. */
  text(hasReplica: boolean): string {
    const parts: string[] = [];
    for (let index = 0; index < this.length; index += 1) parts.push(plainLine(this.at(index), hasReplica));
    return parts.length === 0 ? "" : `${parts.join("\n")}\n`;
  }
}

function plainLine({ at, line, replica }: LogLine, hasReplica: boolean): string {
  return [at, hasReplica ? replica : undefined, line].filter((part) => part !== undefined).join(" ");
}

function parseLogLine(text: string): LogLine {
  try {
    return JSON.parse(text) as LogLine;
  } catch {
    return { line: text, replica: "" };
  }
}

/** Splits chunks into complete lines; empty ones only keep the connection open. */
export function createLineSplitter(): (chunk: string) => readonly string[] {
  let rest = "";
  return (chunk) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    return lines.filter((line) => line !== "");
  };
}
