/** What the demo shows: one line per finished step, phases as they happen, a bar while weights are fetched. */
import { SingleBar } from "cli-progress";
import { terminalText } from "../../src/util/terminal-text.ts";

export interface DemoScreen {
  readonly title: (text: string) => void;
  readonly done: (what: string, detail: string, ms: number) => void;
  readonly line: (text: string) => void;
  /** Shows or moves the download bar; `undefined` takes it away. */
  readonly fetching: (progress: { bytes: number; totalBytes: number } | undefined) => void;
}

interface Output {
  readonly stream: NodeJS.WriteStream;
  /** Color and a moving bar only make sense where a person looks. */
  readonly isTerminal: boolean;
}

export function createDemoScreen({ stream, isTerminal }: Output): DemoScreen {
  const paint = (code: number, text: string) => (isTerminal ? `\u001b[${code}m${text}\u001b[0m` : text);
  const write = (text: string) => stream.write(`${terminalText(text)}\n`);
  let bar: SingleBar | undefined;
  const removeBar = () => {
    bar?.stop();
    bar = undefined;
  };
  return {
    title: (text) => write(paint(1, text)),
    done: (what, detail, ms) => {
      removeBar();
      write(
        `  ${paint(32, "✓")} ${what.padEnd(15)} ${detail.padEnd(48)} ${paint(2, formatMs(ms).padStart(7))}`,
      );
    },
    line: (text) => {
      removeBar();
      write(text);
    },
    fetching: (progress) => {
      if (progress === undefined || !isTerminal) return removeBar();
      if (bar === undefined) {
        bar = new SingleBar({
          stream,
          format: "    fetching {bar} {percentage}% of {mib} MiB, {eta_formatted} left",
        });
        bar.start(progress.totalBytes, progress.bytes, { mib: Math.round(progress.totalBytes / 2 ** 20) });
      }
      bar.update(progress.bytes);
    },
  };
}

/** 12 ms, 3.4 s, 2 min 5 s. */
export function formatMs(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
}
