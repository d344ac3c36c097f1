/** The command palette: pages, actions and every service, host and model by name; and all keys of the console. */

import { useNavigate } from "@tanstack/react-router";
import { Command } from "cmdk";
import { Dialog as Radix } from "radix-ui";
import { useDeferredValue, useMemo, useState } from "react";
import { keepNamespace } from "../address/search.ts";
import { hrefOfMachine } from "../address/to.tsx";
import { useList } from "../live/hooks.ts";
import { Dialog, useBack } from "../parts/dialogs.tsx";
import { hasWords } from "../parts/table/filters.tsx";
import { setTheme } from "../parts/theme.ts";
import { COMMAND_KEY, NAVIGATION } from "./navigation.ts";

/** Found objects of each kind. */
const MAX_FOUND = 8;

/** The command palette: pages, actions and every service, host and model by name. */
export function Palette({ onClose }: { readonly onClose: () => void }) {
  const navigate = useNavigate();
  const [words, setWords] = useState("");
  useBack(true, onClose);
  const go = (to: string): void => {
    onClose();
    void navigate({ to: to as "/", search: keepNamespace });
  };
  const deploy = (): void => {
    onClose();
    void navigate({ to: ".", search: (before: object) => ({ ...before, deploy: "new" }) as never });
  };
  const actions = (
    [
      ["Deploy a model", deploy],
      ["Use the dark theme", () => setTheme("dark")],
      ["Use the light theme", () => setTheme("light")],
    ] as const
  ).filter(([label]) => hasWords([label], words));
  const pages = NAVIGATION.filter(({ label, alias = "" }) => hasWords([label, alias], words));
  return (
    <Radix.Root open onOpenChange={(isOpen) => isOpen || onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="dialog-overlay" />
        <Radix.Content className="palette" aria-describedby={undefined}>
          <Radix.Title className="visually-hidden">Search or jump to…</Radix.Title>
          <Command label="Search or jump to…" shouldFilter={false} loop>
            <Command.Input
              value={words}
              onValueChange={setWords}
              placeholder="Search or jump to…"
              autoFocus
            />
            <Command.List>
              <Command.Empty>Nothing found.</Command.Empty>
              <Found words={words} go={go} />
              {actions.length > 0 && (
                <Command.Group heading="Actions">
                  {actions.map(([label, act]) => (
                    <Command.Item key={label} className="menu-item" onSelect={act}>
                      {label}
                    </Command.Item>
                  ))}
                </Command.Group>
              )}
              {pages.length > 0 && (
                <Command.Group heading="Pages">
                  {pages.map(({ to, label, alias, key }) => (
                    <Command.Item key={to} value={to} className="menu-item" onSelect={() => go(to)}>
                      <span>
                        {label} <span className="muted small">{alias}</span>
                      </span>
                      <kbd>g {key}</kbd>
                    </Command.Item>
                  ))}
                </Command.Group>
              )}
            </Command.List>
          </Command>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

interface FoundItem {
  readonly to: string;
  readonly name: string;
  readonly kind: string;
}

function Found({ words, go }: { readonly words: string; readonly go: (to: string) => void }) {
  const services = useList("services").rows;
  const hosts = useList("hosts").rows;
  const models = useList("models").rows;
  const asked = useDeferredValue(words);
  const found = useMemo((): readonly FoundItem[] => {
    if (asked.trim() === "") return [];
    const pick = <R,>(rows: readonly R[], item: (row: R) => FoundItem): readonly FoundItem[] => {
      const all: FoundItem[] = [];
      for (const row of rows) {
        const one = item(row);
        if (hasWords([one.name], asked)) all.push(one);
        if (all.length === MAX_FOUND) break;
      }
      return all;
    };
    return [
      ...pick(services, ({ namespace, name }) => ({
        to: `/services/${namespace}/${name}`,
        name: `${namespace}/${name}`,
        kind: "Service",
      })),
      ...pick(hosts, ({ name, kind }) => ({ to: hrefOfMachine({ kind, name }), name, kind })),
      ...pick(models, ({ namespace, name }) => ({
        to: `/models/${namespace}/${name}`,
        name: `${namespace}/${name}`,
        kind: "Model",
      })),
    ];
  }, [asked, services, hosts, models]);
  if (found.length === 0) return null;
  return (
    <Command.Group heading="Objects">
      {found.map(({ to, name, kind }) => (
        <Command.Item key={to} value={to} className="menu-item" onSelect={() => go(to)}>
          <span className="truncate">{name}</span>
          <span className="muted small">{kind}</span>
        </Command.Item>
      ))}
    </Command.Group>
  );
}

const KEYS: readonly (readonly [keys: string, meaning: string])[] = [
  [`${COMMAND_KEY} or /`, "Search and jump"],
  ["j, k", "Next and previous row"],
  ["Enter", "Open the row"],
  ["Esc", "Close"],
  ["?", "Show these keys"],
];

/** All keys of the console. */
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
