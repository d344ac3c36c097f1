/** Where a model would go in addition to everything that runs now: the best machines, with their memory after it. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import type { HostRow } from "../../../../src/console/rows.ts";
import { type SimulateRequest, simulatePlacement } from "../../api/density.ts";
import { useDebounced } from "../fields.tsx";
import { formatCount, formatGib, formatRate, GIB } from "../format.ts";
import { MemoryBar } from "../machines.tsx";
import { Failure, Skeleton } from "../notices.tsx";
import { Fit, Tag } from "../states.tsx";
import { type Place, type Preview, previewOf, shortOf } from "./recommend.ts";

export function Placement({
  question,
  hosts,
  label,
  replicas,
  max,
  noneOf,
}: {
  readonly question: SimulateRequest;
  readonly hosts: readonly HostRow[];
  readonly label: string;
  readonly replicas: number;
  /** Machines that are shown. */
  readonly max: number;
  /** The text without machines: the catalog may not know the model. */
  readonly noneOf: (isKnown: boolean) => string;
}) {
  const settled = useDebounced(JSON.stringify(question));
  const { data, error } = useQuery({
    queryKey: ["simulate", settled],
    queryFn: ({ signal }) => simulatePlacement(JSON.parse(settled) as SimulateRequest, signal),
    placeholderData: keepPreviousData,
    retry: false,
  });
  if (error !== null) return <Failure error={error} />;
  if (data === undefined) return <Skeleton rows={3} height={72} />;
  if (data.rankedNodes.length === 0) return <p className="muted">{noneOf(data.nearest === undefined)}</p>;
  const preview = previewOf(data.rankedNodes, hosts, max);
  return (
    <>
      {data.note !== undefined && <p className="small toned tone-bad">{sentence(data.note)}</p>}
      <Places preview={preview} label={label} replicas={replicas} />
    </>
  );
}

/** The texts of the API begin small, because they follow a code or a name. */
function sentence(note: string): string {
  return `${note.charAt(0).toUpperCase()}${note.slice(1)}.`;
}

function Places({
  preview,
  label,
  replicas,
}: {
  readonly preview: Preview;
  readonly label: string;
  readonly replicas: number;
}) {
  const { fitting, room, places, why } = preview;
  return (
    <>
      <p className="muted small" aria-live="polite">
        {summaryOf(preview)}
      </p>
      {fitting > 0 && replicas > room && (
        <p className="small toned tone-bad">
          {`These have memory for ${formatCount(room)} of the ${formatCount(replicas)} replicas now. The others wait until more memory is free.`}
        </p>
      )}
      <ol className="cards">
        {places.map((place) => (
          <li
            key={`${place.simulated.kind}/${place.simulated.nodeName}`}
            className="card card-low stack gap-8"
          >
            <OnePlace place={place} why={why} label={label} />
          </li>
        ))}
      </ol>
      {fitting > 0 && (
        <p className="muted small">
          Metalbridge chooses the machine when it places the replica, by these figures.
        </p>
      )}
    </>
  );
}

function summaryOf({ fitting, room, why }: Preview): string {
  if (fitting > 0)
    return `${fitting === 1 ? "1 machine fits" : `${fitting} machines fit`}, with memory for ${room === 1 ? "1 replica" : `${formatCount(room)} replicas`}`;
  return why === "none accepts"
    ? "The machines that have the memory take no new replicas now. The service waits until one does, or another one has the memory."
    : "No machine has enough free memory now. The service waits until one has.";
}

const REASONS = {
  "fastest with reserve": "Fastest that leaves 20 % of its memory free",
  "most memory left": "Leaves the most memory free; none leaves 20 %",
  "none fits": "",
  "none accepts": "",
} as const satisfies Readonly<Record<Preview["why"], string>>;

const OBSTACLES = {
  cordoned: "Cordoned: it takes no new replicas until it is uncordoned.",
  stale: "It has stopped reporting.",
} as const;

function OnePlace({
  place: { simulated, host, isRecommended, obstacle },
  why,
  label,
}: {
  readonly place: Place;
  readonly why: Preview["why"];
  readonly label: string;
}) {
  const { nodeName, fitLevel, requiredMemoryGb, estimatedTps, quantization } = simulated;
  const short = shortOf(simulated);
  return (
    <>
      <div className="spread">
        <span className="line">
          <strong className="truncate">{nodeName}</strong>
          {isRecommended && <Tag level="busy">Recommended</Tag>}
        </span>
        <Fit level={fitLevel} />
      </div>
      {isRecommended && <p className="small muted">{REASONS[why]}</p>}
      {obstacle !== undefined && <p className="small toned tone-bad">{OBSTACLES[obstacle]}</p>}
      {host !== undefined && <MemoryBar host={host} added={{ label, bytes: requiredMemoryGb * GIB }} />}
      <div className="row small number">
        {estimatedTps > 0 && <span>{`≈ ${formatRate(estimatedTps)} tokens/s`}</span>}
        <span className="muted">{`needs ${formatGib(requiredMemoryGb)}`}</span>
        {quantization !== "" && <span className="muted">{quantization}</span>}
        {short > 0 && <span className="toned tone-bad">{`${formatGib(short)} missing`}</span>}
      </div>
    </>
  );
}
