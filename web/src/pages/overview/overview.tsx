/** The page Overview: the farm in figures, what needs a person, the machines. */

import { Fragment, useMemo } from "react";
import type { HostRow, ServiceRow } from "../../../../src/console/rows.ts";
import { useNamespace } from "../../address/search.ts";
import { joinLists, type Live, useList, useLive, useNow } from "../../live/hooks.ts";
import { MemoryBar, MemoryHelp } from "../../parts/machines.tsx";
import { AttentionNotice, Empty, Failure, Skeleton } from "../../parts/notices.tsx";
import { Page, Section } from "../../parts/page.tsx";
import {
  type AttentionGroup,
  type AttentionItem,
  attentionItems,
  groupAttention,
  quietState,
} from "./attention.ts";
import { FarmFigures } from "./farm-figures.tsx";
import "./overview.css";
import { useQuery } from "@tanstack/react-query";
import { MANAGER_CONTROLLER, NAMESPACE_SYSTEM } from "../../../../src/api/group.ts";
import { type LeadershipLease, leadershipNote } from "../../../../src/verdicts/leadership.ts";
import { hrefOfMachine, hrefOfService, To } from "../../address/to.tsx";
import { type ApiObject, getObject } from "../../api/kube.ts";
import { ConsoleError } from "../../api/request.ts";
import { useKnownRight } from "../../api/session.ts";
import { Command } from "../../parts/buttons.tsx";
import { Ago, State } from "../../parts/states.tsx";

const MACHINES = 12;

export function OverviewPage() {
  const namespace = useNamespace();
  const hosts = useList("hosts");
  const services = useList("services");
  const models = useList("models");
  const inNamespace = (row: { readonly namespace: string }) =>
    namespace === "" || row.namespace === namespace;
  const shownServices = services.rows.filter(inNamespace);
  const groups = groupAttention(
    attentionItems({
      hosts: hosts.rows,
      services: shownServices,
      models: models.rows.filter(inNamespace),
    }),
  );
  const { isSynced, refusal } = joinLists(services, hosts);
  const maySeeAll = services.refusal === undefined && hosts.refusal === undefined;
  const leaderless = useLeadershipNote();
  const isEmpty = isSynced && maySeeAll && hosts.rows.length === 0 && services.rows.length === 0;
  return (
    <Page title="Overview">
      {refusal !== undefined && <Failure error={refusal} />}
      {!isSynced && refusal === undefined && <Skeleton />}
      {isEmpty && leaderless !== undefined && <Leaderless note={leaderless} />}
      {isEmpty && <Start />}
      {isSynced && !isEmpty && (
        <>
          <FarmFigures />
          <div className="overview-columns">
            <NeedsAttention
              groups={groups}
              services={shownServices}
              hosts={hosts.refusal === undefined ? hosts.rows : undefined}
              refusal={services.refusal}
              leaderless={leaderless}
            />
            {hosts.rows.length > 0 && <Machines hosts={hosts.rows} />}
          </div>
        </>
      )}
    </Page>
  );
}

function Start() {
  return (
    <Empty
      title="Nothing is here yet"
      why="Metalbridge needs a machine that runs engines and a model to serve. Both take one command; what they do appears here as it happens."
    >
      <p className="prose">
        1. Register a Mac or Linux machine, and run the command that this prints on that machine:
      </p>
      <Command>metalbridge host add mini-1 --address 192.168.1.21</Command>
      <p>2. Serve a model:</p>
      <Command>metalbridge deploy hf://ggml-org/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf --name qwen3</Command>
    </Empty>
  );
}

function NeedsAttention({
  groups,
  services,
  hosts,
  refusal,
  leaderless,
}: {
  readonly groups: readonly AttentionGroup[];
  readonly services: readonly ServiceRow[];
  readonly hosts: readonly HostRow[] | undefined;
  readonly refusal: Live<ServiceRow>["refusal"];
  readonly leaderless: string | undefined;
}) {
  const causes = leaderless === undefined ? 0 : 1;
  const count = groups.reduce((sum, { items }) => sum + items.length, causes);
  return (
    <Section title="Needs attention" aside={count > 0 && <span className="muted small number">{count}</span>}>
      {leaderless !== undefined && <Leaderless note={leaderless} />}
      {count > causes && <AttentionList groups={groups} />}
      {count === 0 && refusal === undefined && <Quiet services={services} hosts={hosts} />}
      {refusal !== undefined && <Failure error={refusal} />}
    </Section>
  );
}

function Leaderless({ note }: { readonly note: string }) {
  const word = `${note.charAt(0).toUpperCase()}${note.slice(1)}.`;
  return (
    <article className="attention tone-bad">
      <State state={{ word, level: "bad" }} />
    </article>
  );
}

const LEASE = { resource: "leases", namespace: NAMESPACE_SYSTEM, name: MANAGER_CONTROLLER };
const LEASE_REFRESH_MS = 20_000;

/** Undefined while a controller leads, and for a reader who may not or cannot read its Lease. */
function useLeadershipNote(): string | undefined {
  const mayRead = useKnownRight({ verb: "get", group: "coordination.k8s.io", ...LEASE });
  const live = useLive();
  const { data, error } = useQuery({
    queryKey: ["lease"],
    queryFn: async ({ signal }) => {
      const lease = await getObject<LeadershipLease & ApiObject>(LEASE, signal);
      // A page in the background reads no Lease: the one it has grows old while a controller leads.
      return { lease, readMs: live.nowMs() };
    },
    enabled: mayRead === true,
    refetchInterval: LEASE_REFRESH_MS,
    retry: false,
  });
  if (error === null) return data && leadershipNote(data.lease, data.readMs);
  const isMissing = error instanceof ConsoleError && error.status === 404;
  return isMissing ? leadershipNote(undefined, 0) : undefined;
}

function Quiet({
  services,
  hosts,
}: {
  readonly services: readonly ServiceRow[];
  readonly hosts: readonly HostRow[] | undefined;
}) {
  const nowMs = useNow(10_000);
  const newest = services.reduce<ServiceRow | undefined>(
    (last, row) => (last === undefined || row.createdAt > last.createdAt ? row : last),
    undefined,
  );
  return (
    <div className="card wrap all-serving">
      <State state={quietState(services, hosts, nowMs)} />
      {newest !== undefined && (
        <p className="muted">
          Newest service:{" "}
          <To path={hrefOfService(newest)}>
            {newest.namespace}/{newest.name}
          </To>
          , <Ago at={newest.createdAt} />
        </p>
      )}
    </div>
  );
}

function Machines({ hosts }: { readonly hosts: readonly HostRow[] }) {
  const fullest = useMemo(
    () => [...hosts].sort((a, b) => fullness(b) - fullness(a) || a.name.localeCompare(b.name)),
    [hosts],
  );
  const all = (
    <span className="row">
      <MemoryHelp />
      <To path="/hosts">{hosts.length === 1 ? "All machines" : `All ${hosts.length} machines`}</To>
    </span>
  );
  return (
    <Section title="Machines, fullest first" aside={all}>
      <ul className="cards">
        {fullest.slice(0, MACHINES).map((host) => (
          <li key={`${host.kind}/${host.name}`}>
            <To path={hrefOfMachine(host)} className="card stack gap-8 card-low">
              <div className="spread">
                <h3 className="truncate">{host.name}</h3>
                <State state={host.state} />
              </div>
              <MemoryBar host={host} />
            </To>
          </li>
        ))}
      </ul>
    </Section>
  );
}

/** Share of the usable budget that is claimed. */
function fullness({ budgetBytes, reserveBytes, claims }: HostRow): number {
  const usable = budgetBytes - reserveBytes;
  return usable <= 0 ? -1 : claims.reduce((sum, { bytes }) => sum + bytes, 0) / usable;
}

const KINDS = { host: "machines", service: "services", model: "models" } as const;
const LINKS = 6;
const GROUPS = 30;

/** The list Needs attention. */
function AttentionList({ groups }: { readonly groups: readonly AttentionGroup[] }) {
  const hidden = groups.slice(GROUPS).reduce((sum, { items }) => sum + items.length, 0);
  return (
    <div className="stack gap-8">
      {groups.slice(0, GROUPS).map((group) => (
        <AttentionNotice key={group.key} attention={group.first.attention} about={<About group={group} />} />
      ))}
      {hidden > 0 && <p className="muted">{`and ${hidden} more`}</p>}
    </div>
  );
}

function About({ group: { first, items } }: { readonly group: AttentionGroup }) {
  const rest = items.length - LINKS;
  const alike = items.filter(({ because }) => because === undefined).length;
  return (
    <>
      {alike > 1 && <span className="muted">{`${alike} ${KINDS[first.kind]}`}</span>}
      {items.slice(0, LINKS).map((item, index) => (
        <Fragment key={item.key}>
          {index === alike && <span className="muted">affects</span>}
          <ItemLink item={item} />
        </Fragment>
      ))}
      {rest > 0 && <span className="muted">{`and ${rest} more`}</span>}
    </>
  );
}

function ItemLink({ item: { href, name } }: { readonly item: AttentionItem }) {
  return (
    <To path={href}>
      <bdi>{name}</bdi>
    </To>
  );
}
