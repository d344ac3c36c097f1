/** The terminal while `metalbridge top` draws on it. */
import { createLogUpdate } from "log-update";
import { terminalText } from "../../src/util/terminal-text.ts";

/** q, Ctrl-C and Ctrl-D. In raw mode the terminal sends no signals. */
const QUIT_KEYS = ["q", "\u0003", "\u0004"];
const ALTERNATE_SCREEN = { enter: "\u001b[?1049h", leave: "\u001b[?1049l" };
/** Clears the screen and moves the cursor to its start: the cursor keeps its position on the alternate screen. */
const EMPTY = "\u001b[2J\u001b[H";

/** Uses the alternate screen, so that the terminal is restored afterwards. */
export function openScreen(quit: () => void) {
  const { stdin, stdout } = process;
  const update = createLogUpdate(stdout);
  const resizes = new AbortController();
  stdout.write(ALTERNATE_SCREEN.enter + EMPTY);
  if (stdin.isTTY) stdin.setRawMode(true);
  stdin.on("data", (keys: Buffer) => {
    if (QUIT_KEYS.some((key) => keys.includes(key))) quit();
  });
  return {
    draw: (lines: readonly string[]): void => update(terminalText(lines.join("\n"))),
    size: () => ({ columns: stdout.columns, rows: stdout.rows - 1 }),
    onResize: (changed: () => void): void => {
      const listener = () => {
        update.clear();
        stdout.write(EMPTY);
        changed();
      };
      stdout.on("resize", listener);
      resizes.signal.addEventListener("abort", () => stdout.off("resize", listener));
    },
    close: (): void => {
      resizes.abort();
      update.clear();
      update.done();
      if (stdin.isTTY) stdin.setRawMode(false);
      stdin.pause();
      stdout.write(ALTERNATE_SCREEN.leave);
    },
  };
}
