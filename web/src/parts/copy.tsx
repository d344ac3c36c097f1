/** A name, address or command to copy. */
import { Check, Copy as CopyIcon } from "lucide-react";
import { useState } from "react";
import { IconButton } from "./button.tsx";

const DONE_MS = 1_500;

export function CopyButton({ value, label = "Copy" }: { readonly value: string; readonly label?: string }) {
  const [isDone, setIsDone] = useState(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(value);
    setIsDone(true);
    setTimeout(() => setIsDone(false), DONE_MS);
  };
  return (
    <IconButton label={isDone ? "Copied" : label} onClick={() => void copy()}>
      {isDone ? <Check size={14} aria-hidden /> : <CopyIcon size={14} aria-hidden />}
    </IconButton>
  );
}

const COMMAND = /^(metalbridge|kubectl|helm|brew|curl|sudo) /;

/** A text of the cluster; its commands, which are in backticks, can be copied. */
export function WithCommands({ text: words }: { readonly text: string }) {
  return words.split("`").map((part, index) => {
    if (index % 2 === 0) return part;
    // biome-ignore lint/suspicious/noArrayIndexKey: the parts keep their places
    return COMMAND.test(part) ? <Command key={index}>{part}</Command> : <code key={index}>{part}</code>;
  });
}

/** A command or address in a box, with a button that copies it. */
export function Command({ children }: { readonly children: string }) {
  return (
    <span className="command">
      <code>{children}</code>
      <CopyButton value={children} />
    </span>
  );
}
