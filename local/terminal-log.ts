/** A log for people at a terminal: time, level when it matters, sentence, then the data as key=value. */
import type { Log } from "../src/util/ports.ts";
import { terminalText } from "../src/util/terminal-text.ts";

type Write = (line: string) => void;

/** Warnings and errors only unless `chatty`; the parts' own logs hold the rest. */
export function createTerminalLog(write: Write, options: { readonly chatty?: boolean } = {}): Log {
  const line = (level: string) => (data: object, message: string) => {
    const time = new Date().toTimeString().slice(0, 8);
    write(`${terminalText(`${time} ${level} ${message}${renderData(data)}`)}\n`);
  };
  const drop = () => {};
  const info = options.chatty === true ? line("info") : drop;
  const log: Log = { debug: drop, info, warn: line("warn"), error: line("error"), child: () => log };
  return log;
}

function renderData(data: object): string {
  const pairs = Object.entries(data).filter(([, value]) => value !== undefined && value !== null);
  return pairs
    .map(([key, value]) => ` ${key}=${typeof value === "object" ? JSON.stringify(value) : value}`)
    .join("");
}

/** For code that retries while the screen shows the failure. */
export const silentLog: Log = createTerminalLog(() => {});
