/** Tabs whose choice is in the URL, by the caller. */
import { Tabs as Radix } from "radix-ui";
import { type ReactNode, useEffect, useRef } from "react";

export interface Tab {
  readonly id: string;
  readonly label: string;
  /** A figure beside the label. */
  readonly count?: number;
  readonly content: () => ReactNode;
}

export function Tabs({
  tabs,
  value,
  onChange,
}: {
  readonly tabs: readonly Tab[];
  readonly value: string;
  readonly onChange: (id: string) => void;
}) {
  const list = useRef<HTMLDivElement>(null);
  // On phones the strip is wider than the screen.
  // biome-ignore lint/correctness/useExhaustiveDependencies: after a change of the tab
  useEffect(() => {
    const active = list.current?.querySelector("[data-state=active]");
    active?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [value]);
  return (
    <Radix.Root value={value} onValueChange={onChange} activationMode="manual">
      <Radix.List className="tabs" ref={list}>
        {tabs.map(({ id, label, count }) => (
          <Radix.Trigger key={id} value={id} className="tab">
            {label}
            {count !== undefined && <span className="tab-count number">{count}</span>}
          </Radix.Trigger>
        ))}
      </Radix.List>
      {tabs.map(({ id, content }) => (
        <Radix.Content key={id} value={id} className="tab-panel" tabIndex={-1}>
          {id === value && content()}
        </Radix.Content>
      ))}
    </Radix.Root>
  );
}
