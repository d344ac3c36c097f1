/** A name, address or command to copy. */
import { Check, Copy as CopyIcon } from "lucide-react";
import { useState } from "react";
import { text } from "../texts/text.ts";
import { IconButton } from "./button.tsx";
import "./copy.css";

const DONE_MS = 1_500;

export function CopyButton({
  value,
  label = text.copy.label,
}: {
  readonly value: string;
  readonly label?: string;
}) {
  const [isDone, setIsDone] = useState(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(value);
    setIsDone(true);
    setTimeout(() => setIsDone(false), DONE_MS);
  };
  return (
    <IconButton label={isDone ? text.copy.done : label} onClick={() => void copy()}>
      {isDone ? <Check size={14} aria-hidden /> : <CopyIcon size={14} aria-hidden />}
    </IconButton>
  );
}

/** A command or address in a box, with a button that copies it. */
export function Command({ children }: { readonly children: string }) {
  return (
    <span className="command">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a long one scrolls, with the keys as well */}
      <code tabIndex={0}>{children}</code>
      <CopyButton value={children} />
    </span>
  );
}
