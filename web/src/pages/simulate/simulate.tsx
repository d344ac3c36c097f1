/** The page Simulate: where a model would be placed, and what remains. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { HostRow } from "../../../../src/console/rows.ts";
import { useSearchParam } from "../../address/search.ts";
import { type SimulateAnswer, type SimulatedPlace, simulatePlacement } from "../../api/density.ts";
import { useList } from "../../live/hooks.ts";
import { Button } from "../../parts/button.tsx";
import { useDebounced } from "../../parts/debounced.ts";
import { Fit } from "../../parts/fit.tsx";
import { formatBytes, formatRate, GIB } from "../../parts/format.ts";
import { MemoryBar } from "../../parts/memory-bar.tsx";
import { Empty, Failure } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { Tag } from "../../parts/state.tsx";
import { simulateText } from "../../texts/density.ts";
import { text } from "../../texts/text.ts";
import { Leaving } from "./leaving.tsx";
import { type Choice, SimulateForm } from "./simulate-form.tsx";
import "./simulate.css";

const MAX_CARDS = 60;

export function SimulatePage() {
  const [model, setModel] = useSearchParam("model");
  const [quantization, setQuantization] = useSearchParam("quantization");
  const [context, setContext] = useSearchParam("context", "8192");
  const [without, setWithout] = useSearchParam("without");
  const hosts = useList("hosts").rows;
  const choice: Choice = { model, quantization, context, without };
  const settled = useDebounced(JSON.stringify(choice));
  const asked = useMemo(() => JSON.parse(settled) as Choice, [settled]);
  const { data, error } = useQuery({
    queryKey: ["simulate", settled],
    queryFn: ({ signal }) =>
      simulatePlacement(
        {
          model: asked.model.trim(),
          quantization: asked.quantization === "" ? undefined : asked.quantization,
          context: Math.max(1, Number.parseInt(asked.context, 10) || 8_192),
          exclude: asked.without === "" ? undefined : [asked.without],
        },
        signal,
      ),
    enabled: asked.model.trim() !== "",
    placeholderData: (before) => before,
  });
  const excluded = hosts.find(({ name }) => name === without);
  return (
    <Page title={text.pages.simulate} subtitle={simulateText.why} isWide>
      <SimulateForm
        choice={choice}
        hosts={hosts}
        onChange={{
          model: setModel,
          quantization: setQuantization,
          context: setContext,
          without: setWithout,
        }}
      />
      {hosts.length === 1 && <p className="muted">{simulateText.onlyOne}</p>}
      {excluded !== undefined && <Leaving host={excluded} />}
      {asked.model.trim() === "" && <Empty title={simulateText.start} why={simulateText.startWhy} />}
      {error !== null && <Failure error={error} />}
      {error === null && asked.model.trim() !== "" && data !== undefined && (
        <Answer answer={data} model={asked.model} hosts={hosts} onChoose={setModel} />
      )}
    </Page>
  );
}

function Answer({
  answer: { rankedNodes, canFitAnywhere, nearest = [] },
  model,
  hosts,
  onChoose,
}: {
  readonly answer: SimulateAnswer;
  readonly model: string;
  readonly hosts: readonly HostRow[];
  readonly onChoose: (model: string) => void;
}) {
  const byKey = new Map(hosts.map((host) => [`${host.kind}/${host.name}`, host]));
  const best = canFitAnywhere ? rankedNodes[0] : undefined;
  if (rankedNodes.length === 0 && nearest.length > 0)
    return (
      <div className="stack">
        <p>{simulateText.unknown(model)}</p>
        <div className="row">
          <span className="muted">{simulateText.nearest}</span>
          {nearest.map((name) => (
            <Button key={name} onClick={() => onChoose(name)}>
              {name}
            </Button>
          ))}
        </div>
      </div>
    );
  return (
    <div className="stack" aria-live="polite">
      <h2>{best === undefined ? simulateText.fitsNowhere : simulateText.fits(best.nodeName)}</h2>
      <ul className="simulated">
        {rankedNodes.slice(0, MAX_CARDS).map((row) => (
          <li key={`${row.kind}/${row.nodeName}`} className="card simulated-card">
            <Place
              row={row}
              host={byKey.get(`${row.kind}/${row.nodeName}`)}
              isBest={row === best}
              model={model}
            />
          </li>
        ))}
      </ul>
    </div>
  );
}

function Place({
  row: { nodeName, fitLevel, requiredMemoryGb, quantization, estimatedTps, schedulable, stale },
  host,
  isBest,
  model,
}: {
  readonly row: SimulatedPlace;
  readonly host: HostRow | undefined;
  readonly isBest: boolean;
  readonly model: string;
}) {
  const added = { label: model, bytes: requiredMemoryGb * GIB };
  return (
    <>
      <div className="spread">
        <span className="row">
          <h3>
            <bdi>{nodeName}</bdi>
          </h3>
          {isBest && <Tag level="ok">{simulateText.recommended}</Tag>}
          {stale && <Tag level="warn">{text.hosts.stale}</Tag>}
          {!schedulable && <Tag>{text.hosts.cordoned}</Tag>}
        </span>
        <Fit level={fitLevel} />
      </div>
      {host !== undefined && <MemoryBar host={host} added={added} />}
      <p className="small muted number">
        {[
          simulateText.needs(formatBytes(added.bytes)),
          quantization,
          estimatedTps > 0 ? simulateText.speed(formatRate(estimatedTps)) : "",
        ]
          .filter(Boolean)
          .join(" · ")}
      </p>
    </>
  );
}
