/** The program `metalbridge` in a real pseudo-terminal, as a user has it. */
import path from "node:path";
import { type IPty, spawn } from "node-pty";
import { expect } from "vitest";
import { until } from "../../agent/fixtures/until.ts";

const PROGRAM = path.join(import.meta.dirname, "..", "..", "cli", "metalbridge.mjs");

export interface InTerminal {
  readonly pty: IPty;
  /** All that has come since the start, or since `clear`. */
  readonly output: () => string;
  readonly clear: () => void;
  /** Waits until it shows this. */
  readonly shows: (text: string | RegExp) => Promise<void>;
  readonly exitCode: Promise<number>;
  readonly [Symbol.dispose]: () => void;
}

export function runInTerminal(args: readonly string[], size = { cols: 80, rows: 24 }): InTerminal {
  const env = { ...process.env, KUBECONFIG: "/nonexistent" };
  const pty = spawn(process.execPath, [PROGRAM, ...args], { ...size, env });
  let output = "";
  let hasExited = false;
  pty.onData((text) => {
    output += text;
  });
  const exitCode = new Promise<number>((resolve) => {
    pty.onExit((exit) => {
      hasExited = true;
      resolve(exit.exitCode);
    });
  });
  return {
    pty,
    output: () => output,
    clear: () => {
      output = "";
    },
    shows: (text) => until(() => expect(output).toMatch(text)),
    exitCode,
    // Not by closing the terminal: programs started by this test hold its master too.
    [Symbol.dispose]: () => {
      if (!hasExited) pty.kill("SIGKILL");
    },
  };
}
