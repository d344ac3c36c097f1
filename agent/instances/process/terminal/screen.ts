/** The screen of a program's terminal, kept so that whoever attaches sees what is on it. */
import { SerializeAddon } from "@xterm/addon-serialize";
import headless from "@xterm/headless";
import type { Size } from "./frames.ts";

/** About 1 MB where the lines are full. */
const SCROLLBACK_LINES = 1_000;
/** Back to the ordinary screen and a terminal's defaults, then empty. */
const CLEAR = "\u001b[?1047l\u001b[!p\u001b[2J\u001b[H";

export interface TerminalScreen {
  /** Calls back once the screen shows it. */
  readonly add: (output: string, shown: () => void) => void;
  readonly resize: (size: Size) => void;
  /** Calls back with what draws this screen on another terminal, after all that was added before. */
  readonly draw: (options: { readonly withHistory: boolean }, drawn: (text: string) => void) => void;
}

/** `answer` is called with what a terminal replies to a program's questions, such as where the cursor is. */
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
