/** Why the replicas run where they run, and what other hosts lack. */
import { Link } from "@tanstack/react-router";
import type { ServicePlacement } from "../../../../src/api/inference-service/index.ts";
import type { StateWord } from "../../../../src/console/rows.ts";
import { keepNamespace } from "../../address/search.ts";
import { formatBytes } from "../../parts/format.ts";
import { Empty } from "../../parts/notice.tsx";
import { Section } from "../../parts/page.tsx";
import { type PlainColumn, PlainTable } from "../../parts/plain-table.tsx";
import { State, Tag } from "../../parts/state.tsx";
import { serviceText } from "../../texts/service.ts";
import { conditionOf, type ServiceObjects } from "./service-state.ts";
import { stateOfReplica } from "../../../../src/verdicts/replica.ts";

const { placement: texts } = serviceText;

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
      {status?.waitingFor !== undefined && <p className="prose">{texts.waitingFor(status.waitingFor)}</p>}
      {(status?.queuePosition ?? 0) > 0 && <p className="muted">{texts.queue(status?.queuePosition ?? 0)}</p>}
      {pods.length > 0 && <p className="muted">{texts.byKubernetes}</p>}
      {isEmpty && pods.length === 0 && <Empty title={texts.nothing} why={placed?.message ?? ""} />}
      {chosen.length > 0 && <Chosen chosen={chosen} replicas={replicas} />}
      {misses.length > 0 && <Misses misses={misses} />}
      {preempted.length > 0 && (
        <Section title={texts.preempted}>
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
        <Section title={texts.rejected}>
          <div className="row">
            {counts.map(([reason, count]) => (
              <Tag key={reason}>{`${reason}: ${texts.hosts(count)}`}</Tag>
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
    if (replica === undefined)
      return { choice, state: { word: texts.chosenWord, level: "busy" }, message: "" };
    const { message, ...state } = stateOfReplica(replica);
    return { choice, state, message };
  });
  const rank = ({ state }: PlacedReplica) => (state.level === "ok" ? 1 : 0);
  return placed.sort((a, b) => rank(a) - rank(b) || byName.compare(a.choice.replica, b.choice.replica));
}

const COLUMNS: readonly PlainColumn<PlacedReplica>[] = [
  { id: "replica", header: texts.replica, cell: ({ choice }) => choice.replica },
  { id: "host", header: texts.host, cell: ({ choice }) => <HostLink host={choice.host} /> },
  { id: "state", header: texts.state, cell: ({ state }) => <State state={state} /> },
  {
    id: "why",
    header: texts.why,
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
    header: texts.score,
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
      title={texts.chosen}
      aside={<span className="muted small">{texts.serving(serving, placed.length)}</span>}
    >
      <PlainTable
        label={texts.chosen}
        rows={placed}
        keyOf={({ choice }) => choice.replica}
        columns={COLUMNS}
        none={texts.nothing}
      />
    </Section>
  );
}

function Misses({ misses }: { readonly misses: NonNullable<ServicePlacement["misses"]> }) {
  return (
    <Section title={texts.misses}>
      <ul className="panel places">
        {misses.map(({ host, reason, message, shortBytes, hint }) => (
          <li key={host} className="place">
            <HostLink host={host} />
            <State state={{ word: reason, level: "warn" }} />
            <span className="place-why">
              {message}
              {hint !== undefined && <span className="muted">{` ${hint}`}</span>}
            </span>
            <span className="number small toned tone-warn">
              {shortBytes === undefined ? "" : texts.short(formatBytes(shortBytes))}
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function HostLink({ host }: { readonly host: string }) {
  return (
    <Link
      to={`/hosts/${encodeURIComponent(host)}` as "/"}
      search={keepNamespace}
      className="link truncate"
      title={host}
    >
      {host}
    </Link>
  );
}
