/** The output of the demo: one line per finished step, phases as they happen, and a bar while weights are downloaded. */
import { terminalText } from "../../src/util/terminal-text.ts";
import type { Download } from "../../src/verdicts/download.ts";
import { createDownloadBar } from "../download-bar.ts";

export interface DemoScreen {
  readonly title: (text: string) => void;
  readonly done: (what: string, detail: string, ms: number) => void;
  readonly line: (text: string) => void;
  /** Shows or moves the download bar; `undefined` removes it. */
  readonly fetching: (download: Download | undefined) => void;
}

interface Output {
  readonly stream: NodeJS.WriteStream;
  /** Color and the download bar are used only on a terminal. */
  readonly isTerminal: boolean;
}

export function createDemoScreen({ stream, isTerminal }: Output): DemoScreen {
  const paint = (code: number, text: string) => (isTerminal ? `\u001b[${code}m${text}\u001b[0m` : text);
  const write = (text: string) => stream.write(`${terminalText(text)}\n`);
  const bar = createDownloadBar(stream, { indent: "    " });
  return {
    title: (text) => write(paint(1, text)),
    done: (what, detail, ms) => {
      bar.update(undefined);
      write(
        `  ${paint(32, "✓")} ${what.padEnd(15)} ${detail.padEnd(48)} ${paint(2, formatMs(ms).padStart(7))}`,
      );
    },
    line: (text) => {
      bar.update(undefined);
      write(text);
    },
    fetching: (progress) => bar.update(isTerminal ? progress : undefined),
  };
}

/** 12 ms, 3.4 s, 2 min 5 s. */
export function formatMs(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
}
