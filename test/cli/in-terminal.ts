/** The program `metalbridge` in a real pseudo-terminal, as a user has it. */
import path from "node:path";
import headless from "@xterm/headless";
import { type IPty, spawn } from "node-pty";
import { expect } from "vitest";
import { until } from "../bed/until.ts";

const PROGRAM = path.join(import.meta.dirname, "..", "..", "cli", "metalbridge.mjs");
/** The terminal's modes, as `stty` restores them, before and after the program. */
const BETWEEN_MODES = ["-c", 'stty -g; "$@"; code=$?; stty -g; exit $code', "sh"];

export interface InTerminal {
  readonly pty: IPty;
  /** All that has come since the start, or since `clear`. */
  readonly output: () => string;
  readonly clear: () => void;
  /** Waits until it shows this. */
  readonly shows: (text: string | RegExp) => Promise<void>;
  /** What a person sees: the lines of the screen, without empty ones at the end. */
  readonly screen: () => string;
  /** Resizes the terminal, and the screen with it. */
  readonly resize: (cols: number, rows: number) => void;
  readonly exitCode: Promise<number>;
  readonly [Symbol.dispose]: () => void;
}

export interface InTerminalOptions {
  readonly cols?: number;
  readonly rows?: number;
  readonly kubeconfig?: string;
  /** Prints the modes of the terminal before and after it. */
  readonly withModes?: boolean;
}

export function runInTerminal(
  args: readonly string[],
  { cols = 80, rows = 24, kubeconfig = "/nonexistent", withModes = false }: InTerminalOptions = {},
): InTerminal {
  const env = { ...process.env, KUBECONFIG: kubeconfig };
  const line = [process.execPath, PROGRAM, ...args];
  const [file, ...rest] = withModes ? ["/bin/sh", ...BETWEEN_MODES, ...line] : line;
  const pty = spawn(file ?? "", rest, { cols, rows, env });
  const emulator = new headless.Terminal({ cols, rows, allowProposedApi: true });
  let output = "";
  let hasExited = false;
  pty.onData((text) => {
    output += text;
    emulator.write(text);
  });
  const exitCode = new Promise<number>((resolve) => {
    pty.onExit((exit) => {
      hasExited = true;
      // The screen then shows all that came.
      emulator.write("", () => resolve(exit.exitCode));
    });
  });
  return {
    pty,
    output: () => output,
    clear: () => {
      output = "";
    },
    shows: (text) => until(() => expect(output).toMatch(text)),
    screen: () => {
      const { active } = emulator.buffer;
      const lines = Array.from({ length: emulator.rows }, (_, row) =>
        active.getLine(active.baseY + row)?.translateToString(true),
      );
      return lines.join("\n").trimEnd();
    },
    resize: (newCols, newRows) => {
      emulator.resize(newCols, newRows);
      pty.resize(newCols, newRows);
    },
    exitCode,
    // Not by closing the terminal: programs started by this test hold its master too.
    [Symbol.dispose]: () => {
      if (!hasExited) pty.kill("SIGKILL");
    },
  };
}
