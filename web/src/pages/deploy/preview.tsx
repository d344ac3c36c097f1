/** Right side of the dialog: the best machines for the choice, with their memory after it. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useDeferredValue } from "react";
import { requestJson } from "../../api/request.ts";
import { useList } from "../../live/hooks.ts";
import { fitWord } from "../../parts/fit.ts";
import { formatCount, formatGib, formatRate, GIB } from "../../parts/format.ts";
import { MemoryBar, MemoryHelp } from "../../parts/memory-bar.tsx";
import { Failure, Skeleton } from "../../parts/notice.tsx";
import { State, Tag } from "../../parts/state.tsx";
import { deployText } from "../../texts/deploy.ts";
import type { Choice, Meaning } from "./choice.ts";
import { type Place, type Preview, previewOf, type SimulatedPlace, shortOf } from "./recommend.ts";

const SIMULATE = "/api/v1/density/simulate";

interface SimulateAnswer {
  readonly rankedNodes: readonly SimulatedPlace[];
}

export function DeployPreview({
  choice,
  meaning,
  trainedContext,
}: {
  readonly choice: Choice;
  readonly meaning: Meaning;
  /** Of the model in the catalog, in tokens. */
  readonly trainedContext: number | undefined;
}) {
  const hosts = useList("hosts").rows;
  const question = useDeferredValue(questionOf(choice, meaning));
  const { data, error } = useQuery({
    queryKey: ["simulate", question],
    queryFn: ({ signal }) =>
      requestJson<SimulateAnswer>(SIMULATE, { method: "POST", body: question, signal }),
    enabled: question !== undefined,
    placeholderData: keepPreviousData,
    retry: false,
  });
  return (
    <section className="deploy-preview" aria-label={deployText.preview}>
      <div className="spread">
        <h3>{deployText.preview}</h3>
        <MemoryHelp />
      </div>
      {trainedContext !== undefined && (question?.context ?? 0) > trainedContext && (
        <p className="small deploy-short">
          {deployText.contextCut(formatCount(trainedContext), formatCount(question?.context))}
        </p>
      )}
      {question === undefined ? (
        <p className="muted">{deployText.previewNothing}</p>
      ) : error !== null ? (
        <Failure error={error} />
      ) : data === undefined ? (
        <Skeleton rows={3} height={72} />
      ) : data.rankedNodes.length === 0 ? (
        <p className="muted">{deployText.previewUnknown}</p>
      ) : (
        <Places preview={previewOf(data.rankedNodes, hosts)} label={meaning.name} />
      )}
    </section>
  );
}

/** Undefined while there is nothing to ask. */
function questionOf(choice: Choice, meaning: Meaning) {
  if (meaning.at !== "deployment") return undefined;
  const { model, service } = meaning.deployment;
  return {
    model: meaning.weights,
    quantization: choice.from === "catalog" ? model.spec.quantization : undefined,
    context: service.spec.contextSize,
  };
}

function Places({ preview, label }: { readonly preview: Preview; readonly label: string }) {
  return (
    <>
      <p className="muted small">{summaryOf(preview)}</p>
      <ol className="deploy-places">
        {preview.places.map((place) => (
          <li key={place.simulated.nodeName} className="card deploy-place">
            <OnePlace place={place} why={deployText.why[preview.why]} label={label} />
          </li>
        ))}
      </ol>
      {preview.fitting > 0 && <p className="muted small">{deployText.schedulerChooses}</p>}
    </>
  );
}

function summaryOf({ fitting, why }: Preview): string {
  if (fitting > 0) return deployText.fits(fitting);
  return why === "none accepts" ? deployText.noneAccepts : deployText.none;
}

function OnePlace({
  place: { simulated, host, isRecommended, obstacle },
  why,
  label,
}: {
  readonly place: Place;
  readonly why: string;
  readonly label: string;
}) {
  const { nodeName, fitLevel, requiredMemoryGb, estimatedTps, quantization } = simulated;
  const short = shortOf(simulated);
  return (
    <>
      <div className="spread">
        <span className="row deploy-place-name">
          <strong className="truncate">{nodeName}</strong>
          {isRecommended && <Tag level="busy">{deployText.recommended}</Tag>}
        </span>
        <State state={fitWord(fitLevel)} />
      </div>
      {isRecommended && <p className="small muted">{why}</p>}
      {obstacle !== undefined && <p className="small deploy-short">{deployText.obstacle[obstacle]}</p>}
      {host !== undefined && <MemoryBar host={host} added={{ label, bytes: requiredMemoryGb * GIB }} />}
      <div className="row small number">
        <span>{deployText.tokens(formatRate(estimatedTps))}</span>
        <span className="muted">{deployText.needs(formatGib(requiredMemoryGb))}</span>
        {quantization !== "" && <span className="muted">{quantization}</span>}
        {short > 0 && <span className="deploy-short">{deployText.short(formatGib(short))}</span>}
      </div>
    </>
  );
}
