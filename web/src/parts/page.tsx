/** Head of a page: title, what belongs to it, its actions; its sections and tabs. */

import { Tabs as RadixTabs } from "radix-ui";
import { type ReactNode, Suspense, useEffect, useRef } from "react";
import type { ApiRefusal } from "../../../src/console/protocol.ts";
import { Empty, Failure, Skeleton } from "./notices.tsx";

/** Head of a page: title, what belongs to it, its actions. */
export function Page({
  title,
  subtitle,
  actions,
  isWide = false,
  children,
}: {
  readonly title: string;
  readonly subtitle?: ReactNode;
  readonly actions?: ReactNode;
  /** Tables use the whole width. */
  readonly isWide?: boolean;
  readonly children: ReactNode;
}) {
  useEffect(() => {
    document.title = `${title} · Metalbridge`;
  }, [title]);
  return (
    <div className={isWide ? "stack gap-24 page" : "stack gap-24 page page-narrow"}>
      <header className="page-head">
        <div className="page-titles">
          <h1>{title}</h1>
          {subtitle !== undefined && <div className="muted">{subtitle}</div>}
        </div>
        {actions !== undefined && <div className="row">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

/** The page of an object that has not arrived yet, or that does not exist. */
export function AbsentPage({
  name,
  what,
  of: { isSynced, refusal },
}: {
  readonly name: string;
  readonly what: string;
  readonly of: { readonly isSynced: boolean; readonly refusal: ApiRefusal | undefined };
}) {
  const why = "It was deleted while this page was open, or the address is wrong.";
  return (
    <Page title={name}>
      {refusal !== undefined && <Failure error={refusal} />}
      {refusal === undefined && !isSynced && <Skeleton />}
      {isSynced && <Empty title={`${what} ${name} no longer exists.`} why={why} />}
    </Page>
  );
}

export function Section({
  title,
  aside,
  children,
}: {
  readonly title: string;
  readonly aside?: ReactNode;
  readonly children: ReactNode;
}) {
  return (
    <section className="stack">
      <div className="spread">
        <h2>{title}</h2>
        {aside}
      </div>
      {children}
    </section>
  );
}

export interface Tab {
  readonly id: string;
  readonly label: string;
  /** A figure beside the label. */
  readonly count?: number;
  readonly content: () => ReactNode;
}

/** Tabs whose choice is in the URL, by the caller. */
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
    <RadixTabs.Root value={value} onValueChange={onChange} activationMode="manual">
      <RadixTabs.List className="tabs" ref={list}>
        {tabs.map(({ id, label, count }) => (
          <RadixTabs.Trigger key={id} value={id} className="tab">
            {label}
            {count !== undefined && <span className="tab-count number">{count}</span>}
          </RadixTabs.Trigger>
        ))}
      </RadixTabs.List>
      {tabs.map(({ id, content }) => (
        <RadixTabs.Content key={id} value={id} className="tab-panel" tabIndex={-1}>
          {id === value && <Suspense fallback={<Skeleton />}>{content()}</Suspense>}
        </RadixTabs.Content>
      ))}
    </RadixTabs.Root>
  );
}

export type Fact = readonly [label: string, value: ReactNode];

/** Facts of one object: a label above each value. Those without a value are left out. */
export function Facts({ facts }: { readonly facts: readonly Fact[] }) {
  return (
    <dl className="facts">
      {facts
        .filter(([, value]) => value !== undefined && value !== "")
        .map(([label, value]) => (
          <div key={label} className={isLong(value) ? "fact-long" : undefined}>
            <dt>{label}</dt>
            <dd>{typeof value === "string" ? <bdi>{value}</bdi> : value}</dd>
          </div>
        ))}
    </dl>
  );
}

const LONG = 28;

/** Such as the source of a model: gets the width of two facts. */
function isLong(value: ReactNode): boolean {
  return typeof value === "string" && value.length > LONG;
}
