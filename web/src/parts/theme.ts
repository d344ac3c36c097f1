/** Light or dark: the system's choice until the reader makes one. */
import { useSyncExternalStore } from "react";

export type Theme = "light" | "dark";

const KEY = "metalbridge.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

function chosenTheme(): Theme | undefined {
  const chosen = localStorage.getItem(KEY);
  return chosen === "light" || chosen === "dark" ? chosen : undefined;
}

function currentTheme(): Theme {
  return chosenTheme() ?? (dark.matches ? "dark" : "light");
}

/** Called before the first render, so that nothing flashes. */
export function startTheme(): void {
  apply();
  dark.addEventListener("change", apply);
}

/** Undefined: follow the system. */
export function setTheme(theme: Theme | undefined): void {
  if (theme === undefined) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, theme);
  apply();
}

/** The reader's choice; undefined while the system's is followed. */
export function useChosenTheme(): Theme | undefined {
  return useSyncExternalStore(subscribe, chosenTheme);
}

export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, currentTheme);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function apply(): void {
  document.documentElement.dataset.theme = currentTheme();
  for (const listener of listeners) listener();
}
