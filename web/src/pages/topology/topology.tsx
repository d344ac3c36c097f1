/** The page Topology: gateway, services and machines, with their traffic. */
import { lazy, Suspense, useEffect, useMemo, useRef, useState } from "react";
import type { HostRow, ServiceRow } from "../../../../src/console/rows.ts";
import { useNamespace, useSearchParam } from "../../address/search.ts";
import { useSession } from "../../api/session.ts";
import { useList } from "../../live/hooks.ts";
import { Chips } from "../../parts/chips.tsx";
import { Empty, Failure, Skeleton } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { Segments } from "../../parts/segments.tsx";
import { useMedia } from "../../parts/table.tsx";
import { text } from "../../texts/text.ts";
import { texts } from "../../texts/topology.ts";
import { type Facts, FactsContext } from "./graph/facts.ts";
import { groupServices, pathOf, type Selection, sortMachines } from "./graph/graph.ts";
import { MAX_BARS, type MachineId } from "./graph/layout.ts";
import { countHealths, HEALTHS, isOfHealth } from "./health.ts";
import { HeatMap } from "./heat/heat.tsx";
import { TopologyList } from "./list.tsx";
import "./topology.css";

const TopologyMap = lazy(() =>
  import("./map/map.tsx").then(({ TopologyMap: component }) => ({ default: component })),
);
const PHONE = "(max-width: 640px)";

export function TopologyPage() {
  const services = useList("services");
  const hosts = useList("hosts");
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
  const shownHosts = useMemo(() => hosts.rows.filter(isOfHealth(healths)), [hosts.rows, healths]);
  const counts = useMemo(() => countHealths([...inNamespace, ...hosts.rows]), [inNamespace, hosts.rows]);
  const refusal = services.refusal ?? hosts.refusal;
  const isSynced = services.isSynced && hosts.isSynced;
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
      {isSynced && isEmpty && <Empty title={texts.none} why={texts.noneWhy} />}
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
      {isSynced && !isEmpty && view === "map" && <Picture services={shownServices} hosts={shownHosts} />}
    </Page>
  );
}

function Picture({
  services,
  hosts,
}: {
  readonly services: readonly ServiceRow[];
  readonly hosts: readonly HostRow[];
}) {
  const groups = useStable(useMemo(() => groupServices(services), [services]));
  const machines = useStable(useMemo(() => machinesOf(hosts), [hosts]));
  const [selection, setSelection] = useState<Selection>();
  useEffect(() => {
    const release = (event: KeyboardEvent): void => {
      if (event.key === "Escape") setSelection(undefined);
    };
    addEventListener("keydown", release);
    return () => removeEventListener("keydown", release);
  }, []);
  const session = useSession();
  const queues = useList("queues");
  const facts = useMemo((): Facts => {
    const byKey = new Map(services.map((row) => [`${row.namespace}/${row.name}`, row]));
    const byName = new Map(hosts.map((row) => [row.name, row]));
    return {
      groups: new Map(groups.map((group) => [group.id, group])),
      serviceOf: (key) => byKey.get(key),
      machineOf: (name) => byName.get(name),
      waiting: queues.rows.reduce((sum, { waiting }) => sum + waiting, 0),
      hasGateway: session?.hasGateway === true,
      selection,
      path: pathOf(selection, groups),
      select: setSelection,
    };
  }, [services, hosts, groups, queues.rows, session, selection]);
  if (groups.length + machines.length === 0) return <p className="muted">{texts.nothing}</p>;
  return (
    <FactsContext value={facts}>
      {machines.length > MAX_BARS ? (
        <HeatMap groups={groups} machines={machines} />
      ) : (
        <Suspense fallback={<Skeleton rows={10} />}>
          <TopologyMap
            groups={groups}
            machines={machines}
            selection={selection}
            onRelease={() => setSelection(undefined)}
          />
        </Suspense>
      )}
    </FactsContext>
  );
}

function machinesOf(hosts: readonly HostRow[]): readonly MachineId[] {
  return sortMachines(hosts).map(({ kind, name }) => ({ kind, name }));
}

/** The same array as long as its content is the same, so that nothing is laid out again. */
function useStable<T>(value: readonly T[]): readonly T[] {
  const content = JSON.stringify(value);
  const kept = useRef({ content, value });
  if (kept.current.content !== content) kept.current = { content, value };
  return kept.current.value;
}
