/** The page Topology: gateway, services and machines, with their traffic. */

import { lazyRouteComponent } from "@tanstack/react-router";
import { Suspense, useEffect, useMemo, useRef, useState } from "react";
import type { HostRow, ServiceRow } from "../../../../src/console/rows.ts";
import { useInNamespace, useNamespace, useSearchParam } from "../../address/search.ts";
import { hrefOfService, To } from "../../address/to.tsx";
import { useSession } from "../../api/session.ts";
import { joinLists, useList } from "../../live/hooks.ts";
import { Segments } from "../../parts/buttons.tsx";
import { formatCount, formatRate } from "../../parts/format.ts";
import { Empty, Failure, Skeleton } from "../../parts/notices.tsx";
import { Page } from "../../parts/page.tsx";
import { isOfLevel, LevelChips, useLevels } from "../../parts/table/filters.tsx";
import {
  type Column,
  figure,
  namespacedKey,
  stateColumn,
  Table,
  useMedia,
} from "../../parts/table/table.tsx";
import { type Figures, figuresOf, levelsOf } from "./graph/figures.ts";
import {
  groupServices,
  hasSameMachines,
  hasSameMembers,
  pathOf,
  type Selection,
  sortMachines,
  withTheirMachines,
} from "./graph/graph.ts";
import { MAX_BARS } from "./graph/layout.ts";

const TopologyMap = lazyRouteComponent(() => import("./map/map.tsx"), "TopologyMap");
const LEVEL_WORDS = {
  ok: "Ready",
  busy: "In progress",
  warn: "Needs attention",
  bad: "Not ready",
  idle: "Resting",
} as const;
const PHONE = "(max-width: 640px)";
/** All figures are summed again each time. */
const RENEW_MS = 1_000;

export function TopologyPage() {
  const services = useList("services", RENEW_MS);
  const hosts = useList("hosts", RENEW_MS);
  const isPhone = useMedia(PHONE);
  const [chosenView, setView] = useSearchParam("view");
  const view = chosenView === "" ? (isPhone ? "list" : "map") : chosenView;
  const [levels] = useLevels();
  const namespace = useNamespace();
  const inNamespace = useInNamespace(services.rows);
  const shownServices = useMemo(() => inNamespace.filter(isOfLevel(levels)), [inNamespace, levels]);
  const shownHosts = useMemo(
    () => withTheirMachines(hosts.rows, shownServices, levels),
    [hosts.rows, shownServices, levels],
  );
  const isList = view === "list" || shownHosts.length > MAX_BARS;
  const { isSynced, refusal } = joinLists(services, hosts);
  const isEmpty = inNamespace.length + hosts.rows.length === 0;
  return (
    <Page
      title="Topology"
      subtitle="Requests go from the gateway to services, and from services to the machines they run on."
      isWide
      actions={
        <Segments
          label="View"
          value={view}
          onChange={setView}
          options={[
            { id: "map", label: "Map" },
            { id: "list", label: "List" },
          ]}
        />
      }
    >
      {refusal !== undefined && <Failure error={refusal} />}
      {refusal === undefined && !isSynced && <Skeleton rows={10} />}
      {isSynced && isEmpty && (
        <Empty
          title="Nothing to show yet"
          why="Machines and services appear here, with the traffic between them."
          command="metalbridge host add mini-1 --address 192.168.1.21"
        />
      )}
      {isSynced && !isEmpty && (
        <LevelChips
          rows={view === "list" ? inNamespace : [...inNamespace, ...hosts.rows]}
          words={LEVEL_WORDS}
        />
      )}
      {isSynced && !isEmpty && isList && (
        <>
          {view === "map" ? (
            <p className="prose">
              {`The map shows up to ${MAX_BARS} machines, and these are ${formatCount(shownHosts.length)}. Choose a state to have the map of its machines. `}
              <To path="/hosts">Hosts</To> lists all with their memory.
            </p>
          ) : (
            isPhone && <p className="muted small">The map is better on a larger screen.</p>
          )}
          <TopologyList services={shownServices} />
        </>
      )}
      {isSynced && !isEmpty && !isList && (
        <Picture services={shownServices} hosts={shownHosts} filter={`${namespace} ${levels.join()}`} />
      )}
    </Page>
  );
}

function Picture({
  services,
  hosts,
  filter,
}: {
  readonly services: readonly ServiceRow[];
  readonly hosts: readonly HostRow[];
  readonly filter: string;
}) {
  const groups = useUnless(hasSameMembers, groupServices, services);
  const machines = useUnless(hasSameMachines, sortMachines, hosts);
  const lastFigures = useRef<Figures>(new Map());
  const figures = useMemo(() => {
    lastFigures.current = figuresOf(groups, services, lastFigures.current);
    return lastFigures.current;
  }, [groups, services]);
  const levels = useMemo(() => levelsOf(groups, services), [groups, services]);
  const [selection, select] = useSelection();
  const gateway = useGatewayLine(figures);
  const shown = useMemo(() => {
    const byName = new Map(hosts.map((row) => [row.name, row]));
    const path = pathOf(selection, groups);
    return { groups, figures, levels, hosts: byName, gateway, selection, path, select };
  }, [hosts, groups, figures, levels, gateway, selection, select]);
  if (groups.length + machines.length === 0)
    return <p className="muted">Nothing has this state in this namespace.</p>;
  return (
    <Suspense fallback={<Skeleton rows={10} />}>
      <TopologyMap machines={machines} shown={shown} filter={filter} />
    </Suspense>
  );
}

function useSelection() {
  const [selection, select] = useState<Selection>();
  useEffect(() => {
    const release = (event: KeyboardEvent): void => {
      if (event.key === "Escape") select(undefined);
    };
    addEventListener("keydown", release);
    return () => removeEventListener("keydown", release);
  }, []);
  return [selection, select] as const;
}

function useGatewayLine(figures: Figures): string {
  const session = useSession();
  const queues = useList("queues", RENEW_MS);
  if (session?.hasGateway !== true) return "Clients reach each service directly";
  const tokens = [...figures.values()].reduce((sum, { tokensPerSecond }) => sum + tokensPerSecond, 0);
  const waiting = queues.rows.reduce((sum, row) => sum + row.waiting, 0);
  return `${formatRate(tokens)} tokens/s · ${formatCount(waiting)} waiting`;
}

/** Computed again only when the rows differ in what it depends on. */
function useUnless<R, T>(
  isSame: (before: readonly R[], now: readonly R[]) => boolean,
  compute: (rows: readonly R[]) => T,
  rows: readonly R[],
): T {
  const kept = useRef<{ readonly rows: readonly R[]; readonly value: T }>(undefined);
  if (kept.current === undefined || !isSame(kept.current.rows, rows))
    kept.current = { rows, value: compute(rows) };
  else kept.current = { rows, value: kept.current.value };
  return kept.current.value;
}

/** The topology as a table: for screen readers, for phones, and to copy. */
function TopologyList({ services }: { readonly services: readonly ServiceRow[] }) {
  return (
    <Table
      label="Topology"
      rows={services}
      keyOf={namespacedKey}
      columns={COLUMNS}
      none="No service has this state in this namespace."
      list={{ id: "topology", hrefOf: hrefOfService, defaultSort: "service" }}
    />
  );
}

const COLUMNS: readonly Column<ServiceRow>[] = [
  {
    id: "service",
    header: "Service",
    value: ({ namespace, name }) => `${namespace}/${name}`,
    cell: ({ namespace, name }) => <bdi>{`${namespace}/${name}`}</bdi>,
    width: "minmax(140px, 2fr)",
  },
  stateColumn("minmax(136px, 1fr)"),
  {
    id: "replicas",
    header: "Replicas",
    value: ({ ready }) => ready,
    cell: ({ ready, desired }) => `${ready}/${desired}`,
    width: "64px",
    isNumber: true,
  },
  {
    id: "machines",
    header: "Machines",
    value: ({ hosts }) => hosts.join(", "),
    cell: ({ hosts }) => <bdi>{hosts.length === 0 ? "–" : hosts.join(", ")}</bdi>,
    width: "minmax(104px, 2fr)",
  },
  figure("speed", "Tokens/s", ({ performance }) => performance.tokensPerSecond, formatRate, "64px"),
  figure("inflight", "In flight", ({ performance }) => performance.requestsInFlight, formatRate, "64px"),
];
