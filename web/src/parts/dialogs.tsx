/** Dialogs over the page. Escape and Back close them, a filled form after a question; the focus returns. */

import { useMutation } from "@tanstack/react-query";
import { useBlocker, useRouter } from "@tanstack/react-router";
import { X } from "lucide-react";
import { Dialog as Radix } from "radix-ui";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { Button, type ButtonProps } from "./buttons.tsx";
import { Failure } from "./notices.tsx";

export interface DialogProps {
  readonly title: string;
  readonly description?: ReactNode;
  readonly isOpen: boolean;
  /** Without it the dialog stays until it is answered. */
  readonly onClose?: () => void;
  readonly size?: "small" | "large";
  /** What is typed into it is lost when it closes, unless it was sent. */
  readonly isForm?: boolean;
  readonly children: ReactNode;
}

/** A dialog over the page. Escape and Back close it, a filled form after a question; the focus returns. */
export function Dialog(props: DialogProps) {
  const { title, description, isOpen, onClose, size = "small", isForm = false, children } = props;
  const content = useRef<HTMLDivElement>(null);
  const hasInput = useRef(false);
  const [isAsking, setIsAsking] = useState(false);
  // What was typed and then sent has no field any more.
  const isFilled = () =>
    isForm && hasInput.current && content.current?.querySelector("input, textarea, select") !== null;
  const close = (): void => {
    setIsAsking(false);
    onClose?.();
  };
  // It may also be closed from outside, and stay mounted.
  useEffect(() => {
    if (!isOpen) hasInput.current = false;
  }, [isOpen]);
  const ask = (event: Event): void => {
    if (onClose === undefined || !isFilled()) return;
    event.preventDefault();
    setIsAsking(true);
  };
  useBack(isOpen && onClose !== undefined, () => {
    if (isAsking) setIsAsking(false);
    else if (isFilled()) setIsAsking(true);
    else close();
  });
  return (
    <Radix.Root open={isOpen} onOpenChange={(isNowOpen) => isNowOpen || close()}>
      <Radix.Portal>
        <Radix.Overlay className="dialog-overlay" />
        <Radix.Content
          ref={content}
          className={`stack gap-16 dialog dialog-${size}`}
          onInput={() => {
            hasInput.current = true;
          }}
          onEscapeKeyDown={ask}
          onInteractOutside={ask}
          {...(description === undefined ? { "aria-describedby": undefined } : {})}
        >
          <header className="spread dialog-head">
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
          {isAsking && (
            <Confirm
              title="Discard what you have entered?"
              act="Discard"
              isOpen
              isBusy={false}
              onClose={() => setIsAsking(false)}
              onConfirm={close}
            >
              <p>Nothing of it has been saved.</p>
            </Confirm>
          )}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

interface ConfirmProps extends Omit<DialogProps, "size" | "onClose"> {
  readonly onClose: () => void;
  readonly act: string;
  readonly look?: ButtonProps["look"];
  readonly isBusy: boolean;
  readonly onConfirm: () => void;
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
}: ConfirmProps) {
  return (
    <Dialog {...dialog} onClose={onClose}>
      <div className="stack">{children}</div>
      <footer className="row end">
        <Button onClick={onClose}>Cancel</Button>
        <Button look={look ?? "danger"} disabled={isBusy} onClick={onConfirm}>
          {act}
        </Button>
      </footer>
    </Dialog>
  );
}

/** Back, while something lies over the page: it closes that and stays on the page. */
export function useBack(isOpen: boolean, onBack: () => void): void {
  const { history, navigate } = useRouter();
  useEffect(() => {
    // Before the first page of a visit is none that could be stayed on: back would leave the console.
    if (isOpen && history.location.state.__TSR_index === 0)
      void navigate({ to: ".", search: true, hash: true, resetScroll: false });
  }, [isOpen, history, navigate]);
  useBlocker({
    disabled: !isOpen,
    enableBeforeUnload: false,
    shouldBlockFn: ({ action }) => {
      if (action !== "BACK") return false;
      // The router goes forward again: what closes may change the address, which must be that of this page.
      addEventListener("popstate", () => setTimeout(onBack, 0), { once: true });
      return true;
    },
  });
}

/** Asks before an action, and closes once it has succeeded. */
export function ConfirmAction({
  run,
  onDone,
  isReady = true,
  children,
  ...confirm
}: Omit<ConfirmProps, "isOpen" | "isBusy" | "onConfirm"> & {
  readonly run: () => Promise<unknown>;
  /** After the action, before the dialog closes. */
  readonly onDone?: () => unknown;
  readonly isReady?: boolean;
}) {
  const { mutate, isPending, error } = useMutation({
    mutationFn: run,
    onSuccess: async () => {
      await onDone?.();
      confirm.onClose();
    },
  });
  return (
    <Confirm {...confirm} isOpen isBusy={isPending || !isReady} onConfirm={() => mutate()}>
      {children}
      {error !== null && <Failure error={error} />}
    </Confirm>
  );
}
