/** The page Topology: gateway, services and machines, with their traffic. */
import { lazy, Suspense, useEffect, useMemo, useRef, useState } from "react";
import type { HostRow, ServiceRow } from "../../../../src/console/rows.ts";
import { useNamespace, useSearchParam } from "../../address/search.ts";
import { useSession } from "../../api/session.ts";
import { joinLists, useList } from "../../live/hooks.ts";
import { Chips } from "../../parts/chips.tsx";
import { formatCount, formatRate } from "../../parts/format.ts";
import { Empty, Failure, Skeleton } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { Segments } from "../../parts/segments.tsx";
import { useMedia } from "../../parts/table.tsx";
import { text } from "../../texts/text.ts";
import { texts } from "../../texts/topology.ts";
import { type Figures, figuresOf, levelsOf } from "./graph/figures.ts";
import {
  groupServices,
  hasSameMachines,
  hasSameMembers,
  pathOf,
  type Selection,
  sortMachines,
} from "./graph/graph.ts";
import { MAX_BARS } from "./graph/layout.ts";
import { countHealths, HEALTHS, isOfHealth, withTheirMachines } from "./health.ts";
import { HeatMap } from "./heat/heat.tsx";
import { TopologyList } from "./list.tsx";
import "./topology.css";

const TopologyMap = lazy(() =>
  import("./map/map.tsx").then(({ TopologyMap: component }) => ({ default: component })),
);
const PHONE = "(max-width: 640px)";
/** All figures are summed again each time. */
const RENEW_MS = 1_000;

export function TopologyPage() {
  const services = useList("services", RENEW_MS);
  const hosts = useList("hosts", RENEW_MS);
  const isPhone = useMedia(PHONE);
  const [chosenView, setView] = useSearchParam("view");
  const view = chosenView === "" ? (isPhone ? "list" : "map") : chosenView;
  const [health, setHealth] = useSearchParam("health");
  const namespace = useNamespace();
  const inNamespace = useMemo(
    () => services.rows.filter((row) => namespace === "" || row.namespace === namespace),
    [services.rows, namespace],
  );
  const healths = useMemo(() => health.split(",").filter(Boolean), [health]);
  const shownServices = useMemo(() => inNamespace.filter(isOfHealth(healths)), [inNamespace, healths]);
  const shownHosts = useMemo(
    () => withTheirMachines(hosts.rows, shownServices, healths),
    [hosts.rows, shownServices, healths],
  );
  const counts = useMemo(
    () => countHealths(view === "list" ? inNamespace : [...inNamespace, ...hosts.rows]),
    [view, inNamespace, hosts.rows],
  );
  const { isSynced, refusal } = joinLists(services, hosts);
  const isEmpty = inNamespace.length + hosts.rows.length === 0;
  return (
    <Page
      title={text.pages.topology}
      subtitle={texts.subtitle}
      isWide
      actions={
        <Segments
          label={texts.view}
          value={view}
          onChange={setView}
          options={[
            { id: "map", label: texts.views.map },
            { id: "list", label: texts.views.list },
          ]}
        />
      }
    >
      {refusal !== undefined && <Failure error={refusal} />}
      {refusal === undefined && !isSynced && <Skeleton rows={10} />}
      {isSynced && isEmpty && (
        <Empty title={texts.none} why={texts.noneWhy} command={text.hosts.emptyCommand} />
      )}
      {isSynced && !isEmpty && (
        <Chips
          label={texts.health}
          chosen={healths}
          onChange={(chosen) => setHealth(chosen.join(","))}
          chips={HEALTHS.map((id) => ({ id, label: texts.healths[id], count: counts[id] }))}
        />
      )}
      {isSynced && !isEmpty && view === "list" && (
        <>
          {isPhone && <p className="muted small">{texts.larger}</p>}
          <TopologyList services={shownServices} />
        </>
      )}
      {isSynced && !isEmpty && view === "map" && (
        <Picture services={shownServices} hosts={shownHosts} filter={`${namespace} ${health}`} />
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
  if (groups.length + machines.length === 0) return <p className="muted">{texts.nothing}</p>;
  if (machines.length > MAX_BARS) return <HeatMap machines={machines} shown={shown} />;
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
  if (session?.hasGateway !== true) return texts.gatewayNone;
  const tokens = [...figures.values()].reduce((sum, { tokensPerSecond }) => sum + tokensPerSecond, 0);
  const waiting = queues.rows.reduce((sum, row) => sum + row.waiting, 0);
  return `${texts.tokens(formatRate(tokens))} · ${texts.waiting(formatCount(waiting))}`;
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
