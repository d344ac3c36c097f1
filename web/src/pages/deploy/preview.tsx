/** Right side of the dialog: the best machines for the choice, with their memory after it. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useDeferredValue } from "react";
import type { RunsOn } from "../../../../src/api/inference-service/rollout.ts";
import { requestJson } from "../../api/request.ts";
import { useList } from "../../live/hooks.ts";
import { Fit } from "../../parts/fit.tsx";
import { formatCount, formatGib, formatRate, GIB } from "../../parts/format.ts";
import { MemoryBar, MemoryHelp } from "../../parts/memory-bar.tsx";
import { Failure, Skeleton } from "../../parts/notice.tsx";
import { Tag } from "../../parts/state.tsx";
import { deployText } from "../../texts/deploy.ts";
import type { Choice, Deployment, Meaning } from "./choice.ts";
import {
  type Place,
  type Preview,
  placeOf,
  previewOf,
  questionOf,
  type SimulatedPlace,
  shortOf,
} from "./recommend.ts";

const SIMULATE = "/api/v1/density/simulate";

interface SimulateAnswer {
  readonly rankedNodes: readonly SimulatedPlace[];
  /** Names of the catalog, if it has no such model. */
  readonly nearest?: readonly string[];
}

export function DeployPreview({
  choice,
  meaning,
  deployment,
  trainedContext,
}: {
  readonly choice: Choice;
  readonly meaning: Meaning;
  /** The objects that will be created, also if their YAML was edited. */
  readonly deployment: Deployment | undefined;
  /** Of the model in the catalog, in tokens. */
  readonly trainedContext: number | undefined;
}) {
  const place = deployment && placeOf(deployment);
  const question = useDeferredValue(questionOf(choice, meaning, deployment));
  const { data, error } = useQuery({
    queryKey: ["simulate", question],
    queryFn: ({ signal }) =>
      requestJson<SimulateAnswer>(SIMULATE, { method: "POST", body: question, signal }),
    enabled: question !== undefined,
    placeholderData: keepPreviousData,
    retry: false,
  });
  return (
    <section className="stack gap-8" aria-label={deployText.preview}>
      <div className="spread">
        <h3>{deployText.preview}</h3>
        <MemoryHelp />
      </div>
      {place !== undefined && <p className="muted small">{deployText.place(place)}</p>}
      {trainedContext !== undefined && (question?.context ?? 0) > trainedContext && (
        <p className="small toned tone-bad">
          {deployText.contextCut(formatCount(trainedContext), formatCount(question?.context))}
        </p>
      )}
      {question === undefined ? (
        <p className="muted">{deployText.previewNothing}</p>
      ) : error !== null ? (
        <Failure error={error} />
      ) : data === undefined ? (
        <Skeleton rows={3} height={72} />
      ) : (
        <Answer
          answer={data}
          on={question.on}
          label={meaning.name}
          replicas={deployment?.service.spec.replicas ?? 1}
        />
      )}
    </section>
  );
}

interface Wanted {
  readonly label: string;
  readonly replicas: number;
}

function Answer({
  answer: { rankedNodes, nearest },
  on,
  ...rest
}: Wanted & {
  readonly answer: SimulateAnswer;
  readonly on: RunsOn;
}) {
  const hosts = useList("hosts").rows;
  if (rankedNodes.length > 0) return <Places preview={previewOf(rankedNodes, hosts)} {...rest} />;
  return (
    <p className="muted">{nearest === undefined ? deployText.noMachine[on] : deployText.previewUnknown}</p>
  );
}

function Places({ preview, label, replicas }: Wanted & { readonly preview: Preview }) {
  const { fitting, room } = preview;
  return (
    <>
      <p className="muted small">{summaryOf(preview)}</p>
      {fitting > 0 && replicas > room && (
        <p className="small toned tone-bad">{deployText.roomFor(formatCount(room), formatCount(replicas))}</p>
      )}
      <ol className="stack gap-8">
        {preview.places.map((place) => (
          <li key={place.simulated.nodeName} className="card stack gap-8 deploy-place">
            <OnePlace place={place} why={deployText.why[preview.why]} label={label} />
          </li>
        ))}
      </ol>
      {fitting > 0 && <p className="muted small">{deployText.schedulerChooses}</p>}
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
        <span className="line">
          <strong className="truncate">{nodeName}</strong>
          {isRecommended && <Tag level="busy">{deployText.recommended}</Tag>}
        </span>
        <Fit level={fitLevel} words={deployText.levels} />
      </div>
      {isRecommended && <p className="small muted">{why}</p>}
      {obstacle !== undefined && <p className="small toned tone-bad">{deployText.obstacle[obstacle]}</p>}
      {host !== undefined && <MemoryBar host={host} added={{ label, bytes: requiredMemoryGb * GIB }} />}
      <div className="row small number">
        <span>{deployText.tokens(formatRate(estimatedTps))}</span>
        <span className="muted">{deployText.needs(formatGib(requiredMemoryGb))}</span>
        {quantization !== "" && <span className="muted">{quantization}</span>}
        {short > 0 && <span className="toned tone-bad">{deployText.short(formatGib(short))}</span>}
      </div>
    </>
  );
}
