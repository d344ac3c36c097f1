/** Why the replicas run where they run, and what other hosts lack. */

import type { ServicePlacement } from "../../../../src/api/inference-service/index.ts";
import type { StateWord } from "../../../../src/console/rows.ts";
import { stateOfReplica } from "../../../../src/verdicts/replica.ts";
import { formatBytes, plural } from "../../parts/format.ts";
import { Empty } from "../../parts/notices.tsx";
import { MachineLink } from "../../parts/objects/objects.tsx";
import { Section } from "../../parts/page.tsx";
import { State, Tag } from "../../parts/states.tsx";
import { type Column, Table } from "../../parts/table/table.tsx";
import { conditionOf, type ServiceObjects } from "./objects.ts";

export function PlacementTab({ objects: { service, pods, replicas } }: { readonly objects: ServiceObjects }) {
  const { status } = service;
  const { chosen = [], misses = [], preempted = [], reasons = {} } = status?.placement ?? {};
  const placed = conditionOf(service, "Placed");
  const counts = Object.entries(reasons).sort(([, a], [, b]) => b - a);
  const isEmpty = chosen.length + misses.length + preempted.length + counts.length === 0;
  return (
    <div className="stack gap-24 placement">
      {misses.length === 0 && placed?.status === "False" && placed.message !== "" && (
        <p className="prose">{placed.message}</p>
      )}
      {status?.waitingFor !== undefined && <p className="prose">{`Waiting for ${status.waitingFor}.`}</p>}
      {(status?.queuePosition ?? 0) > 0 && (
        <p className="muted">{`Position ${status?.queuePosition ?? 0} in the queue.`}</p>
      )}
      {pods.length > 0 && (
        <p className="muted">The scheduler of Kubernetes places the pods of this service.</p>
      )}
      {isEmpty && pods.length === 0 && (
        <Empty title="No replica has been placed yet." why={placed?.message ?? ""} />
      )}
      {chosen.length > 0 && <Chosen chosen={chosen} replicas={replicas} />}
      {misses.length > 0 && <Misses misses={misses} />}
      {preempted.length > 0 && (
        <Section title="Preempted replicas">
          <ul className="plain-list">
            {preempted.map(({ slot, by, host }) => (
              <li key={slot}>
                {`${slot} on `}
                <bdi>{host}</bdi>, by <bdi>{by}</bdi>
              </li>
            ))}
          </ul>
        </Section>
      )}
      {counts.length > 0 && (
        <Section title="Rejected hosts by reason">
          <div className="row">
            {counts.map(([reason, count]) => (
              <Tag key={reason}>{`${reason}: ${plural(count, "host")}`}</Tag>
            ))}
          </div>
        </Section>
      )}
    </div>
  );
}

type ChosenHost = NonNullable<ServicePlacement["chosen"]>[number];

interface PlacedReplica {
  readonly choice: ChosenHost;
  readonly state: StateWord;
  /** Why it does not serve. */
  readonly message: string;
}

const byName = new Intl.Collator(undefined, { numeric: true });

/** The replicas that do not serve come first: they are why one opens this tab. */
function placedReplicas(chosen: readonly ChosenHost[], replicas: ServiceObjects["replicas"]) {
  const known = new Map(replicas.map((replica) => [replica.metadata.name, replica]));
  const placed = chosen.map((choice): PlacedReplica => {
    const replica = known.get(choice.replica);
    if (replica === undefined) return { choice, state: { word: "Chosen", level: "busy" }, message: "" };
    const { message, ...state } = stateOfReplica(replica);
    return { choice, state, message };
  });
  const rank = ({ state }: PlacedReplica) => (state.level === "ok" ? 1 : 0);
  return placed.sort((a, b) => rank(a) - rank(b) || byName.compare(a.choice.replica, b.choice.replica));
}

const COLUMNS: readonly Column<PlacedReplica>[] = [
  { id: "replica", header: "Replica", cell: ({ choice }) => choice.replica },
  { id: "host", header: "Host", cell: ({ choice }) => <MachineLink name={choice.host} /> },
  { id: "state", header: "State", cell: ({ state }) => <State state={state} /> },
  {
    id: "why",
    header: "Why",
    cell: ({ choice, message }) => (
      <span className="place-why">
        {message !== "" && <span>{`${message} `}</span>}
        <span className="muted">{choice.reason}</span>
      </span>
    ),
    isWide: true,
  },
  {
    id: "score",
    header: "Score",
    cell: ({ choice }) => choice.score?.toFixed(1) ?? "",
    isNumber: true,
  },
];

function Chosen({
  chosen,
  replicas,
}: {
  readonly chosen: readonly ChosenHost[];
  readonly replicas: ServiceObjects["replicas"];
}) {
  const placed = placedReplicas(chosen, replicas);
  const serving = placed.filter(({ state }) => state.level === "ok").length;
  return (
    <Section
      title="Chosen hosts"
      aside={<span className="muted small">{`${serving} of ${placed.length} serve`}</span>}
    >
      <Table
        label="Chosen hosts"
        rows={placed}
        keyOf={({ choice }) => choice.replica}
        columns={COLUMNS}
        none="No replica has been placed yet."
      />
    </Section>
  );
}

function Misses({ misses }: { readonly misses: NonNullable<ServicePlacement["misses"]> }) {
  return (
    <Section title="Hosts that come closest">
      <ul className="panel places">
        {misses.map(({ host, reason, message, shortBytes, hint }) => (
          <li key={host} className="place">
            <MachineLink name={host} />
            <State state={{ word: reason, level: "warn" }} />
            <span className="place-why">
              {message}
              {hint !== undefined && <span className="muted">{` ${hint}`}</span>}
            </span>
            <span className="number small toned tone-warn">
              {shortBytes === undefined ? "" : `${formatBytes(shortBytes)} missing`}
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}
