/** Why the replicas run where they run, and what other hosts lack. */
import { Link } from "@tanstack/react-router";
import type { ServicePlacement } from "../../../../src/api/inference-service/index.ts";
import { keepNamespace } from "../../address/search.ts";
import { formatBytes } from "../../parts/format.ts";
import { Empty } from "../../parts/notice.tsx";
import { Section } from "../../parts/page.tsx";
import { State, Tag } from "../../parts/state.tsx";
import { serviceText } from "../../texts/service.ts";
import { conditionOf, type ServiceObjects } from "./service-state.ts";

const { placement: texts } = serviceText;

export function PlacementTab({ objects: { service, pods } }: { readonly objects: ServiceObjects }) {
  const { status } = service;
  const { chosen = [], misses = [], preempted = [], reasons = {} } = status?.placement ?? {};
  const placed = conditionOf(service, "Placed");
  const counts = Object.entries(reasons).sort(([, a], [, b]) => b - a);
  const isEmpty = chosen.length + misses.length + preempted.length + counts.length === 0;
  return (
    <div className="stack placement">
      {placed?.status === "False" && placed.message !== "" && <p className="prose">{placed.message}</p>}
      {status?.waitingFor !== undefined && <p className="prose">{texts.waitingFor(status.waitingFor)}</p>}
      {(status?.queuePosition ?? 0) > 0 && <p className="muted">{texts.queue(status?.queuePosition ?? 0)}</p>}
      {pods.length > 0 && <p className="muted">{texts.byKubernetes}</p>}
      {isEmpty && pods.length === 0 && <Empty title={texts.nothing} why={placed?.message ?? ""} />}
      {chosen.length > 0 && <Chosen chosen={chosen} />}
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

function Chosen({ chosen }: { readonly chosen: NonNullable<ServicePlacement["chosen"]> }) {
  return (
    <Section title={texts.chosen}>
      <ul className="places">
        {chosen.map(({ replica, host, score, reason }) => (
          <li key={replica} className="place">
            <HostLink host={host} />
            <State state={{ word: "Chosen", level: "ok" }} />
            <span className="place-why">{reason}</span>
            <span className="number muted small">
              {score === undefined ? "" : `${texts.score} ${score.toFixed(1)}`}
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function Misses({ misses }: { readonly misses: NonNullable<ServicePlacement["misses"]> }) {
  return (
    <Section title={texts.misses}>
      <ul className="places">
        {misses.map(({ host, reason, message, shortBytes, hint }) => (
          <li key={host} className="place">
            <HostLink host={host} />
            <State state={{ word: reason, level: "warn" }} />
            <span className="place-why">
              {message}
              {hint !== undefined && <span className="muted">{` ${hint}`}</span>}
            </span>
            <span className="number small place-short">
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
