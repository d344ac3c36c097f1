/** Query parameters that every page has: plain strings, so that addresses can be read and typed. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { createContext, useCallback, useContext, useMemo } from "react";

export type Search = Readonly<Record<string, string | undefined>>;

export function parseSearch(text: string): Search {
  return Object.fromEntries(new URLSearchParams(text));
}

export function stringifySearch(search: Record<string, unknown>): string {
  const entries = Object.entries(search).filter(([, value]) => value !== undefined && value !== "");
  const text = new URLSearchParams(entries.map(([name, value]) => [name, String(value)])).toString();
  return text === "" ? "" : `?${text}`;
}

/** A parameter of the address, and how to change it. An empty value removes it. */
export function useSearchParam(name: string, byDefault = ""): readonly [string, (value: string) => void] {
  const search = useSearch({ strict: false }) as Search;
  const setParams = useSetSearch();
  // The same function in each render, as effects expect it: another one would run them again and again.
  const setParam = useCallback(
    (value: string) => setParams({ [name]: value === byDefault ? undefined : value }),
    [setParams, name, byDefault],
  );
  return [search[name] ?? byDefault, setParam];
}

/** Changes several parameters at once. The history gets no entry: back leaves the page. */
export function useSetSearch(): (changes: Search) => void {
  const navigate = useNavigate();
  return useCallback(
    (changes) => {
      void navigate({
        to: ".",
        search: (before: object) => ({ ...before, ...changes }) as never,
        replace: true,
      });
    },
    [navigate],
  );
}

/** The only namespace that the reader sees; empty if there are more. */
export const OnlyNamespace = createContext("");

/** The namespace that the reader has chosen, or the only one; empty for all. */
export function useNamespace(): string {
  return useSearchParam("ns", useContext(OnlyNamespace))[0];
}

/** The rows of that namespace. */
export function useInNamespace<R extends { readonly namespace: string }>(rows: readonly R[]): readonly R[] {
  const namespace = useNamespace();
  return useMemo(
    () => rows.filter((row) => namespace === "" || row.namespace === namespace),
    [rows, namespace],
  );
}

/** Another page has other filters, but the same namespace. */
export function keepNamespace(before: object): never {
  const { ns } = before as { readonly ns?: string };
  return { ns } as never;
}
