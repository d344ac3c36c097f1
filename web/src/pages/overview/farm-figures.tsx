/** The key figures of the farm. */

import type { ReactNode } from "react";
import type { FarmRow, QueueRow } from "../../../../src/console/rows.ts";
import { To } from "../../address/to.tsx";
import { useSession } from "../../api/session.ts";
import { useList } from "../../live/hooks.ts";
import { formatBytes, formatCount, formatDuration, formatRate } from "../../parts/format.ts";
import { countReady } from "../../parts/states.tsx";

/** Size of the line of tokens. */
const WIDTH = 120;
const HEIGHT = 20;

export function FarmFigures() {
  const farm = useList("farm").rows[0];
  const queues = useList("queues").rows;
  const hasGateway = useSession()?.hasGateway === true;
  // Without the right to list hosts, their figures are not zero but unknown.
  const { rows, refusal, isSynced } = useList("hosts");
  const maySeeHosts = refusal === undefined;
  const services = useList("services").refusal === undefined ? farm?.services : undefined;
  const hosts = maySeeHosts && isSynced ? rows : undefined;
  const hostsDetail = maySeeHosts ? `of ${formatCount(hosts?.length)}` : "no right to see hosts";
  const budget = maySeeHosts ? `of ${formatBytes(farm?.budgetBytes)}` : "no right to see hosts";
  return (
    <dl className="panel figures">
      <Figure
        label="Machines ready"
        value={formatCount(hosts && countReady(hosts))}
        detail={
          <To path="/hosts" className="">
            {hostsDetail}
          </To>
        }
      />
      <Figure
        label="Services ready"
        value={formatCount(services?.ready)}
        detail={
          <To path="/services" className="">
            {services === undefined ? "no right to see services" : `of ${formatCount(services.total)}`}
          </To>
        }
      />
      <Tokens farm={farm} />
      <Figure label="Requests in flight" value={formatRate(farm?.requestsInFlight)} />
      {(hasGateway || queues.length > 0) && <Queue queues={queues} />}
      <Figure
        label="Memory claimed"
        value={formatBytes(maySeeHosts ? farm?.claimedBytes : undefined)}
        aside={<span className="muted small number">{budget}</span>}
      />
    </dl>
  );
}

function Tokens({ farm }: { readonly farm: FarmRow | undefined }) {
  const history = farm?.history ?? [];
  const label = `Last hour: between ${formatRate(Math.min(...history))} and ${formatRate(Math.max(...history))} tokens/s`;
  return (
    <Figure
      label="Tokens per second"
      value={formatRate(farm?.tokensPerSecond)}
      aside={<Spark values={history} label={label} />}
    />
  );
}

function Queue({ queues }: { readonly queues: readonly QueueRow[] }) {
  const waiting = queues.reduce((sum, row) => sum + row.waiting, 0);
  const longest = Math.max(0, ...queues.map((row) => row.longestWaitSeconds));
  return (
    <Figure
      label="Waiting in queues"
      value={formatCount(waiting)}
      detail={waiting === 0 ? "none waiting" : `longest ${formatDuration(longest * 1_000)}`}
    />
  );
}

/** With its label, its value, and what it is compared with. */
function Figure({
  label,
  value,
  detail,
  aside,
}: {
  readonly label: string;
  readonly value: string;
  /** Small, after the value. */
  readonly detail?: ReactNode;
  /** Below the value. */
  readonly aside?: ReactNode;
}) {
  return (
    <div className="stack gap-4 figure">
      <dt>{label}</dt>
      <dd>
        <span className="figure-value">{value}</span>
        {detail !== undefined && <span className="muted small number">{detail}</span>}
      </dd>
      {aside !== undefined && <dd>{aside}</dd>}
    </div>
  );
}

/** A small line without axes; its text says between which values it moves. */
function Spark({ values, label }: { readonly values: readonly number[]; readonly label: string }) {
  const most = Math.max(...values, 0);
  if (values.length < 2) return null;
  const points = values.map((value, index) => {
    const x = (index / (values.length - 1)) * WIDTH;
    const y = HEIGHT - 1 - (most === 0 ? 0 : (value / most) * (HEIGHT - 2));
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  return (
    <svg
      className="spark"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <title>{label}</title>
      <polygon points={`0,${HEIGHT} ${points.join(" ")} ${WIDTH},${HEIGHT}`} />
      <polyline points={points.join(" ")} />
    </svg>
  );
}
