/** All machines: cards or a table. */
import { LayoutGrid, Rows3 } from "lucide-react";
import { useMemo } from "react";
import type { HostRow } from "../../../../src/console/rows.ts";
import { hrefOfMachine } from "../../address/href.ts";
import { useSearchParam } from "../../address/search.ts";
import { useList } from "../../live/hooks.ts";
import { formatBytes, formatCount } from "../../parts/format.ts";
import { freeBytesOf } from "../../parts/free-bytes.ts";
import { isOfLevel, LevelChips, useLevels, countOf, Filter, hasWords } from "../../parts/table/filters.tsx";
import { MemoryBar, MemoryHelp, MachineCard } from "../../parts/machines.tsx";
import { Empty, Failure, Skeleton } from "../../parts/notices.tsx";
import { Page } from "../../parts/page.tsx";
import { type Column, DataTable } from "../../parts/table/table.tsx";
import { Segments } from "../../parts/buttons.tsx";
import { Ago, countReady, State, Tag } from "../../parts/states.tsx";

/** More cards than this make a page too long to read. */
const CARDS_BY_DEFAULT = 24;
const MAX_CARDS = 240;

const LEVEL_WORDS = {
  ok: "Ready",
  busy: "In progress",
  warn: "Needs attention",
  bad: "Not ready",
  idle: "Cordoned or drained",
} as const;

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
        { id: "cards", label: "Cards", icon: <LayoutGrid size={14} aria-hidden /> },
        { id: "table", label: "Table", icon: <Rows3 size={14} aria-hidden /> },
      ]}
    />
  );
  return (
    <Page
      title="Hosts"
      subtitle={hosts.rows.length > 0 ? `${countReady(hosts.rows)} of ${hosts.rows.length} ready` : undefined}
      actions={hosts.rows.length > 0 && choice}
      isWide
    >
      {hosts.refusal !== undefined && <Failure error={hosts.refusal} />}
      {!hosts.isSynced && hosts.refusal === undefined && <Skeleton />}
      {hosts.isSynced && hosts.rows.length === 0 && (
        <Empty
          title="No machines yet"
          why="Register a Mac or Linux machine, and run the command that this prints on that machine. Its memory and engines appear here within seconds."
          command="metalbridge host add mini-1 --address 192.168.1.21"
        />
      )}
      {hosts.rows.length > 0 && view === "cards" && (
        <Cards hosts={shown} all={hosts.rows} words={words} setWords={setWords} />
      )}
      {hosts.rows.length > 0 && view === "table" && (
        <DataTable
          id="hosts"
          label="Hosts"
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
  return isStale ? <Ago at={lastSeen} /> : "now";
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
      <Filter label="Filter" words={words} onChange={setWords} />
      <MemoryHelp />
      <LevelChips label="State" rows={all} words={LEVEL_WORDS} />
      <span className="muted small number">{countOf(shown, all.length)}</span>
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
      <ul className="machine-cards">
        {sorted.slice(0, MAX_CARDS).map((host) => (
          <li key={keyOfHost(host)}>
            <MachineCard
              machine={host}
              about={[host.chip, formatBytes(host.totalBytes), host.os]}
              facts={[
                ["Engines", host.engines.map(({ name }) => name).join(", ") || "–"],
                ["Models that fit", formatCount(host.fits)],
                ["Last seen", <Seen key="seen" host={host} />],
              ]}
            />
          </li>
        ))}
      </ul>
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
    header: "Engines",
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
    header: "Last seen",
    value: ({ lastSeen }) => lastSeen,
    cell: (host) => <Seen host={host} />,
    width: "80px",
    isNumber: true,
  },
];

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
