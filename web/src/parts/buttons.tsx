/** What a reader presses: buttons, choices of few, and what copies. */

import { Check, Copy as CopyIcon } from "lucide-react";
import { Tooltip } from "radix-ui";
import { type ButtonHTMLAttributes, type ReactNode, useId, useState } from "react";
import type { RightState } from "../api/session.ts";

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  readonly look?: "primary" | "plain" | "quiet" | "danger";
  readonly icon?: ReactNode;
  /** Without the right the button cannot be used, and explains that on hover and focus. */
  readonly right?: RightState | undefined;
}

/** Buttons. One that the reader has no right to is disabled and says why. */
export function Button({ look = "plain", icon, right, children, className = "", ...rest }: ButtonProps) {
  const reason = useId();
  const why = right?.isAllowed === false ? right.why : undefined;
  const classes = `button button-${look} ${className}`;
  if (why === undefined)
    return (
      <button type="button" {...rest} className={classes}>
        {icon}
        {children}
      </button>
    );
  // aria-disabled, because a disabled button gets no focus and could not be explained.
  return (
    <Hint text={why}>
      <button
        type="button"
        {...rest}
        onClick={(event) => event.preventDefault()}
        aria-disabled
        aria-describedby={reason}
        className={classes}
      >
        {icon}
        {children}
        <span id={reason} className="visually-hidden">
          {why}
        </span>
      </button>
    </Hint>
  );
}

/** A button that shows an icon only; `label` is its name. */
export function IconButton({ label, children, ...rest }: ButtonProps & { readonly label: string }) {
  return (
    <Hint text={label}>
      <button type="button" {...rest} aria-label={label} className="button button-icon">
        {children}
      </button>
    </Hint>
  );
}

/** A text that appears on hover and on focus. */
export function Hint({ text, children }: { readonly text: string; readonly children: ReactNode }) {
  return (
    <Tooltip.Root>
      <Tooltip.Trigger asChild>{children}</Tooltip.Trigger>
      <Tooltip.Portal>
        <Tooltip.Content className="hint" sideOffset={6} collisionPadding={8}>
          {text}
        </Tooltip.Content>
      </Tooltip.Portal>
    </Tooltip.Root>
  );
}

const DONE_MS = 1_500;

/** A name, address or command to copy. */
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

export interface SegmentOption {
  readonly id: string;
  readonly label: string;
  readonly icon?: ReactNode;
}

/** A choice of few, as buttons side by side. */
export function Segments({
  label,
  value,
  options,
  onChange,
}: {
  readonly label: string;
  readonly value: string;
  readonly options: readonly SegmentOption[];
  readonly onChange: (id: string) => void;
}) {
  return (
    <fieldset className="segments" aria-label={label}>
      {options.map(({ id, label: name, icon }) => (
        <button key={id} type="button" aria-pressed={id === value} onClick={() => onChange(id)}>
          {icon}
          {name}
        </button>
      ))}
    </fieldset>
  );
}

/** Downloads a text. */
export function saveFile(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
