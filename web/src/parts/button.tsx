/** Buttons. One that the reader has no right to is disabled and says why. */
import { Tooltip } from "radix-ui";
import { type ButtonHTMLAttributes, type ReactNode, useId } from "react";
import type { RightState } from "../api/session.ts";

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  readonly look?: "primary" | "plain" | "quiet" | "danger";
  readonly icon?: ReactNode;
  /** Without the right the button cannot be used, and explains that on hover and focus. */
  readonly right?: RightState | undefined;
}

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
