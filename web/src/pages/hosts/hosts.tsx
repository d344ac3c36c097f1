/** All machines: cards or a table. */

import { Link } from "@tanstack/react-router";
import { LayoutGrid, Rows3 } from "lucide-react";
import { useMemo } from "react";
import type { HostRow } from "../../../../src/console/rows.ts";
import { hrefOfMachine } from "../../address/href.ts";
import { keepNamespace, useSearchParam } from "../../address/search.ts";
import { useList } from "../../live/hooks.ts";
import { Filter } from "../../parts/filter.tsx";
import { formatBytes, formatCount } from "../../parts/format.ts";
import { freeBytesOf } from "../../parts/free-bytes.ts";
import { isOfLevel, LevelChips, useLevels } from "../../parts/level-chips.tsx";
import { MemoryBar, MemoryHelp } from "../../parts/memory-bar.tsx";
import { Empty, Failure, Skeleton } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { Segments } from "../../parts/segments.tsx";
import { countReady, State, Tag } from "../../parts/state.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { Ago } from "../../parts/time.tsx";
import { hasWords } from "../../parts/words.ts";
import { text } from "../../texts/text.ts";
import "./hosts.css";

/** More cards than this make a page too long to read. */
const CARDS_BY_DEFAULT = 24;
const MAX_CARDS = 240;

export function HostsPage() {
  const hosts = useList("hosts");
  const [words, setWords] = useSearchParam("q");
  const [chosen, setView] = useSearchParam("view");
  const [levels] = useLevels();
  const shown = useMemo(
    () => hosts.rows.filter(isOfLevel(levels)).filter((host) => isFound(host, words)),
    [hosts.rows, words, levels],
  );
  const view = chosen === "" ? (hosts.rows.length <= CARDS_BY_DEFAULT ? "cards" : "table") : chosen;
  const choice = (
    <Segments
      label="View"
      value={view}
      onChange={setView}
      options={[
        { id: "cards", label: text.hosts.cards, icon: <LayoutGrid size={14} aria-hidden /> },
        { id: "table", label: text.hosts.table, icon: <Rows3 size={14} aria-hidden /> },
      ]}
    />
  );
  return (
    <Page
      title={text.pages.hosts}
      subtitle={hosts.rows.length > 0 ? `${countReady(hosts.rows)} of ${hosts.rows.length} ready` : undefined}
      actions={hosts.rows.length > 0 && choice}
      isWide
    >
      {hosts.refusal !== undefined && <Failure error={hosts.refusal} />}
      {!hosts.isSynced && hosts.refusal === undefined && <Skeleton />}
      {hosts.isSynced && hosts.rows.length === 0 && (
        <Empty title={text.hosts.empty} why={text.hosts.emptyWhy} command={text.hosts.emptyCommand} />
      )}
      {hosts.rows.length > 0 && view === "cards" && (
        <Cards hosts={shown} all={hosts.rows} words={words} setWords={setWords} />
      )}
      {hosts.rows.length > 0 && view === "table" && (
        <DataTable
          id="hosts"
          label={text.pages.hosts}
          rows={shown}
          keyOf={keyOfHost}
          columns={COLUMNS}
          hrefOf={hrefOfMachine}
          defaultSort="name"
          toolbar={<Toolbar words={words} setWords={setWords} shown={shown.length} all={hosts.rows} />}
        />
      )}
    </Page>
  );
}

/** Only a stale host has a time; the others report every few seconds. */
function Seen({ host: { isStale, lastSeen } }: { readonly host: HostRow }) {
  return isStale ? <Ago at={lastSeen} /> : text.state.now;
}

interface ToolbarProps {
  readonly words: string;
  readonly setWords: (words: string) => void;
}

function Toolbar({
  words,
  setWords,
  shown,
  all,
}: ToolbarProps & { readonly shown: number; readonly all: readonly HostRow[] }) {
  return (
    <>
      <Filter label={text.table.filter} words={words} onChange={setWords} />
      <MemoryHelp />
      <LevelChips label={text.hosts.states} rows={all} words={text.hosts.levels} />
      <span className="muted small number">{text.table.count(shown, all.length)}</span>
    </>
  );
}

function Cards({
  hosts,
  all,
  words,
  setWords,
}: ToolbarProps & { readonly hosts: readonly HostRow[]; readonly all: readonly HostRow[] }) {
  const sorted = useMemo(() => [...hosts].sort((a, b) => a.name.localeCompare(b.name)), [hosts]);
  return (
    <div className="stack">
      <div className="row">
        <Toolbar words={words} setWords={setWords} shown={Math.min(MAX_CARDS, hosts.length)} all={all} />
      </div>
      <ul className="host-cards">
        {sorted.slice(0, MAX_CARDS).map((host) => (
          <li key={keyOfHost(host)}>
            <Card host={host} />
          </li>
        ))}
      </ul>
    </div>
  );
}

function Card({ host }: { readonly host: HostRow }) {
  const engines = host.engines.map(({ name }) => name).join(", ");
  return (
    <Link to={hrefOfMachine(host) as "/"} search={keepNamespace} className="card host-card">
      <div className="spread">
        <h2 className="truncate">{host.name}</h2>
        <State state={host.state} />
      </div>
      <p className="muted small">
        {[host.chip, formatBytes(host.totalBytes), host.os].filter(Boolean).join(" · ")}
      </p>
      <MemoryBar host={host} />
      <dl className="host-facts small">
        <div>
          <dt>{text.hosts.engines}</dt>
          <dd className="truncate">{engines === "" ? "–" : engines}</dd>
        </div>
        <div>
          <dt>{text.hosts.fits}</dt>
          <dd>{formatCount(host.fits)}</dd>
        </div>
        <div>
          <dt>{text.hosts.lastSeen}</dt>
          <dd>
            <Seen host={host} />
          </dd>
        </div>
      </dl>
      <Marks host={host} />
    </Link>
  );
}

/** What the state does not say. */
function Marks({ host: { isCordoned, isStale, pressure, state } }: { readonly host: HostRow }) {
  const isPressed = pressure === "Warning" || pressure === "Critical";
  const hasStale = isStale && state.level !== "bad";
  const hasCordoned = isCordoned && state.level !== "idle";
  if (!hasCordoned && !hasStale && !isPressed) return null;
  return (
    <div className="row">
      {hasStale && <Tag level="warn">{text.hosts.stale}</Tag>}
      {hasCordoned && <Tag>{text.hosts.cordoned}</Tag>}
      {isPressed && (
        <Tag level={pressure === "Critical" ? "bad" : "warn"}>{`${text.hosts.pressure}: ${pressure}`}</Tag>
      )}
    </div>
  );
}

const COLUMNS: readonly Column<HostRow>[] = [
  { id: "name", header: "Name", value: ({ name }) => name, width: "minmax(104px, 1.2fr)" },
  {
    id: "state",
    header: "State",
    value: ({ state }) => state.word,
    cell: ({ state }) => <State state={state} />,
    width: "minmax(104px, 1fr)",
  },
  { id: "chip", header: "Chip", value: ({ chip }) => chip, width: "minmax(88px, 1.4fr)", isWideOnly: true },
  {
    id: "memory",
    header: "Memory",
    value: ({ claims, budgetBytes }) =>
      budgetBytes === 0 ? undefined : claims.reduce((sum, { bytes }) => sum + bytes, 0) / budgetBytes,
    cell: (host) => <MemoryBar host={host} hasLegend={false} />,
    width: "minmax(96px, 1.8fr)",
  },
  {
    id: "left",
    header: "Free",
    value: freeOf,
    cell: (host) => formatBytes(freeOf(host)),
    width: "76px",
    isNumber: true,
  },
  {
    id: "engines",
    header: text.hosts.engines,
    value: ({ engines }) => engines.map(({ name, version }) => `${name} ${version}`.trim()).join(", "),
    width: "minmax(104px, 1.1fr)",
    isWideOnly: true,
  },
  {
    id: "pressure",
    header: "Pressure",
    value: ({ pressure }) => pressure,
    cell: ({ pressure }) =>
      pressure === "Normal" || pressure === "Unknown" ? (
        <span className="muted">{pressure}</span>
      ) : (
        <Tag level={pressure === "Critical" ? "bad" : "warn"}>{pressure}</Tag>
      ),
    width: "72px",
  },
  {
    id: "fits",
    header: "Fits",
    value: ({ fits }) => fits,
    cell: ({ fits }) => formatCount(fits),
    width: "56px",
    isNumber: true,
    isWideOnly: true,
  },
  {
    id: "seen",
    header: text.hosts.lastSeen,
    value: ({ lastSeen }) => lastSeen,
    cell: (host) => <Seen host={host} />,
    width: "80px",
    isNumber: true,
  },
];

/** As under the bar. */
/** Unknown without a budget; a cordoned machine takes nothing. */
function freeOf(host: HostRow): number | undefined {
  return host.budgetBytes === 0 || host.isCordoned ? undefined : Math.max(0, freeBytesOf(host));
}

function keyOfHost({ kind, name }: HostRow): string {
  return `${kind}/${name}`;
}

function isFound({ name, chip, state, engines }: HostRow, words: string): boolean {
  return hasWords([name, chip, state.word, ...engines.map((engine) => engine.name)], words);
}
