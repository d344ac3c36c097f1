/** A dialog over the page. Escape closes it; the focus returns. */
import { X } from "lucide-react";
import { Dialog as Radix } from "radix-ui";
import type { ReactNode } from "react";
import { Button, type ButtonProps } from "./button.tsx";
import "./dialog.css";

export interface DialogProps {
  readonly title: string;
  readonly description?: string;
  readonly isOpen: boolean;
  /** Without it the dialog stays until it is answered. */
  readonly onClose?: () => void;
  readonly size?: "small" | "large";
  readonly children: ReactNode;
}

export function Dialog({ title, description, isOpen, onClose, size = "small", children }: DialogProps) {
  return (
    <Radix.Root open={isOpen} onOpenChange={(isNowOpen) => isNowOpen || onClose?.()}>
      <Radix.Portal>
        <Radix.Overlay className="dialog-overlay" />
        <Radix.Content
          className={`dialog dialog-${size}`}
          {...(description === undefined ? { "aria-describedby": undefined } : {})}
        >
          <header className="dialog-head">
            <Radix.Title asChild>
              <h2>{title}</h2>
            </Radix.Title>
            {onClose !== undefined && (
              <Radix.Close asChild>
                <button type="button" aria-label="Close" className="button button-icon">
                  <X size={16} aria-hidden />
                </button>
              </Radix.Close>
            )}
          </header>
          {description !== undefined && (
            <Radix.Description className="muted prose">{description}</Radix.Description>
          )}
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

/** Asks before an action; `children` says what it does. */
export function Confirm({
  act,
  look = "danger",
  isBusy,
  onClose,
  onConfirm,
  children,
  ...dialog
}: Omit<DialogProps, "size" | "onClose"> & {
  readonly onClose: () => void;
  readonly act: string;
  readonly look?: ButtonProps["look"];
  readonly isBusy: boolean;
  readonly onConfirm: () => void;
}) {
  return (
    <Dialog {...dialog} onClose={onClose}>
      <div className="stack">{children}</div>
      <footer className="dialog-foot">
        <Button onClick={onClose}>Cancel</Button>
        <Button look={look ?? "danger"} disabled={isBusy} onClick={onConfirm}>
          {act}
        </Button>
      </footer>
    </Dialog>
  );
}
