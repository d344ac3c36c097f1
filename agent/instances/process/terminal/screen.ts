/** The screen of a program's terminal, which a new client receives when it attaches. */
import { SerializeAddon } from "@xterm/addon-serialize";
import headless from "@xterm/headless";
import type { Size } from "./frames.ts";

/** About 1 MB if all lines are full. */
const SCROLLBACK_LINES = 1_000;
/** Switches to the normal screen, resets the terminal and clears it. */
const CLEAR = "\u001b[?1047l\u001b[!p\u001b[2J\u001b[H";

export interface TerminalScreen {
  /** Calls `shown` once the screen shows the output. */
  readonly add: (output: string, shown: () => void) => void;
  readonly resize: (size: Size) => void;
  /** Calls `drawn` with the text that draws this screen on another terminal, after all earlier output was processed. */
  readonly draw: (options: { readonly withHistory: boolean }, drawn: (text: string) => void) => void;
}

/** `answer` is called with the terminal's reply to a program's query, such as the position of the cursor. */
export function createTerminalScreen(
  { columns, rows }: Size,
  answer: (text: string) => void,
): TerminalScreen {
  const terminal = new headless.Terminal({
    cols: columns,
    rows,
    scrollback: SCROLLBACK_LINES,
    allowProposedApi: true,
  });
  const serializer = new SerializeAddon();
  terminal.loadAddon(serializer);
  terminal.onData(answer);
  return {
    add: (output, shown) => terminal.write(output, shown),
    resize: (size) => terminal.resize(size.columns, size.rows),
    draw: ({ withHistory }, drawn) =>
      terminal.write("", () => drawn(CLEAR + serializer.serialize(withHistory ? {} : { scrollback: 0 }))),
  };
}
