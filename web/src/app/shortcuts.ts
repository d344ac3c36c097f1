/** Keys of the whole console. They rest while the reader types. */
import { useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";
import { keepNamespace } from "../address/search.ts";
import { NAVIGATION } from "./navigation.ts";

/** Between g and the letter of the page. */
const CHORD_MS = 1_200;

export interface ShortcutActions {
  readonly openPalette: () => void;
  readonly openHelp: () => void;
}

export function useShortcuts({ openPalette, openHelp }: ShortcutActions): void {
  const navigate = useNavigate();
  useEffect(() => {
    let chordUntilMs = 0;
    const press = (event: KeyboardEvent): void => {
      const isCommand = event.metaKey || event.ctrlKey;
      const act = isCommand ? commandOf(event.key) : event.altKey ? undefined : actionOf(event);
      if (act === undefined) return;
      event.preventDefault();
      act();
    };
    const commandOf = (key: string) => (key.toLowerCase() === "k" ? openPalette : undefined);
    const actionOf = (event: KeyboardEvent): (() => void) | undefined => {
      if (isTyping(event.target)) return undefined;
      const page = event.timeStamp < chordUntilMs ? pageOf(event.key) : undefined;
      chordUntilMs = event.key === "g" ? event.timeStamp + CHORD_MS : 0;
      if (page !== undefined) return () => void navigate({ to: page as "/", search: keepNamespace });
      return { "/": openPalette, "?": openHelp, j: firstRow(), k: firstRow() }[event.key];
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, [navigate, openPalette, openHelp]);
}

/** The table moves the focus itself once one of its rows has it. */
function firstRow(): (() => void) | undefined {
  const row = document.querySelector<HTMLElement>("[role=table] a[data-index]");
  if (row === null || document.activeElement?.matches("[data-index]") === true) return undefined;
  return () => row.focus();
}

function pageOf(key: string): string | undefined {
  return NAVIGATION.find((item) => item.key === key)?.to;
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    target.closest("input, textarea, select, [contenteditable], [role=dialog]") !== null
  );
}
