/** All keys of the console. */
import { Dialog } from "../parts/dialog.tsx";
import { COMMAND_KEY, NAVIGATION } from "./navigation.ts";

const KEYS: readonly (readonly [keys: string, meaning: string])[] = [
  [`${COMMAND_KEY} or /`, "Search and jump"],
  ["j, k", "Next and previous row"],
  ["Enter", "Open the row"],
  ["Esc", "Close"],
  ["?", "Show these keys"],
];

export function KeyHelp({ onClose }: { readonly onClose: () => void }) {
  const pages = NAVIGATION.map(({ key, label }) => [`g ${key}`, label] as const);
  return (
    <Dialog title="Keyboard" isOpen onClose={onClose}>
      <dl className="keys">
        {[...KEYS, ...pages].map(([keys, meaning]) => (
          <div key={keys} className="row">
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
