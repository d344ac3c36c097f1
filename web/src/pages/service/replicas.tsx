/** The replicas and pods of a service: each with its way to Ready, its machine and its memory. */
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import { keepNamespace } from "../../address/search.ts";
import { formatBytes, formatCount, formatRate } from "../../parts/format.ts";
import { Empty } from "../../parts/notice.tsx";
import { Progress } from "../../parts/progress.tsx";
import { State } from "../../parts/state.tsx";
import { Ago } from "../../parts/time.tsx";
import { Timeline } from "../../parts/timeline.tsx";
import { serviceText } from "../../texts/service.ts";
import type { ServicePod } from "./pod.ts";
import { stepsOfPod, stepsOfReplica } from "./progress.ts";
import type { ServiceObjects } from "./service-state.ts";
import { downloadText, shareOf } from "../../../../src/verdicts/download.ts";
import { restartsOf, stateOfPod } from "../../../../src/verdicts/pod.ts";
import { exitText, stateOfReplica } from "../../../../src/verdicts/replica.ts";

const { replicas: texts } = serviceText;

export function ReplicasTab({ objects }: { readonly objects: ServiceObjects }) {
  const { replicas, pods } = objects;
  if (replicas.length + pods.length === 0) return <Empty title={texts.none} why={whyNone(objects)} />;
  return (
    <ul className="stack">
      {replicas.map((replica) => (
        <li key={replica.metadata.name}>
          <Replica replica={replica} />
        </li>
      ))}
      {pods.map((pod) => (
        <li key={pod.metadata.name}>
          <PodCard pod={pod} />
        </li>
      ))}
    </ul>
  );
}

function whyNone({ service: { spec, status } }: ServiceObjects): string {
  if (spec.suspend) return texts.noneSuspended;
  if (status?.phase === "Idle") return texts.noneIdle;
  return spec.replicas === 0 ? texts.noneZero : texts.noneWaiting;
}

function Replica({ replica }: { readonly replica: InferenceReplica }) {
  const { metadata, spec, status } = replica;
  const { hostName } = spec.template;
  const state = stateOfReplica(replica);
  const { footprintBytes } = status?.memory ?? {};
  const claimed = formatBytes(spec.memory.claimBytes);
  return (
    <article className="card stack" aria-label={metadata.name}>
      <header className="spread">
        <h3 className="truncate">{metadata.name}</h3>
        <State state={state} />
      </header>
      <Timeline steps={stepsOfReplica(replica)} label={metadata.name} />
      {state.message !== "" && status?.progress === undefined && <p className="prose">{state.message}</p>}
      {status?.phase === "Fetching" && <Download progress={status.progress} />}
      <dl className="facts replica-facts">
        <Fact name={texts.host}>
          <Link to={`/hosts/${encodeURIComponent(hostName)}` as "/"} search={keepNamespace} className="link">
            {hostName}
          </Link>
        </Fact>
        <Fact name={texts.memory}>
          {footprintBytes === undefined ? claimed : texts.inUse(formatBytes(footprintBytes), claimed)}
        </Fact>
        <Fact name={texts.context}>
          {status?.contextPerSlot === undefined ? "–" : texts.tokens(formatCount(status.contextPerSlot))}
        </Fact>
        <Fact name={texts.speed}>{formatRate(status?.performance?.tokensPerSecond)}</Fact>
        <Fact name={texts.restarts}>{formatCount(status?.restarts ?? 0)}</Fact>
      </dl>
      <LastExit replica={replica} />
    </article>
  );
}

function Download({ progress }: { readonly progress: NonNullable<InferenceReplica["status"]>["progress"] }) {
  if (progress === undefined) return null;
  const part = shareOf(progress);
  return (
    <div className="row small">
      {part !== undefined && <Progress label="Download" part={part} />}
      <span className="muted number">{downloadText(progress)}</span>
    </div>
  );
}

function LastExit({ replica: { status } }: { readonly replica: InferenceReplica }) {
  const exit = status?.lastExit;
  if (exit === undefined || exit.killedByUs === true) return null;
  return (
    <div className="small">
      <span className="muted">{texts.lastExit}: </span>
      {exitText(exit)}{" "}
      {exit.at !== undefined && (
        <span className="muted">
          <Ago at={exit.at} />
        </span>
      )}
      {exit.logTail !== undefined && exit.logTail !== "" && (
        <details>
          <summary>{texts.logTail}</summary>
          <pre className="log-tail">{exit.logTail}</pre>
        </details>
      )}
    </div>
  );
}

function PodCard({ pod }: { readonly pod: ServicePod }) {
  const { metadata, spec } = pod;
  const state = stateOfPod(pod);
  return (
    <article className="card stack" aria-label={metadata.name}>
      <header className="spread">
        <h3 className="truncate">{metadata.name}</h3>
        <State state={state} />
      </header>
      <Timeline steps={stepsOfPod(pod)} label={metadata.name} />
      {state.message !== "" && <p className="prose">{state.message}</p>}
      <dl className="facts replica-facts">
        <Fact name={texts.node}>
          {spec.nodeName === undefined ? (
            "–"
          ) : (
            <Link
              to={`/nodes/${encodeURIComponent(spec.nodeName)}` as "/"}
              search={keepNamespace}
              className="link"
            >
              {spec.nodeName}
            </Link>
          )}
        </Fact>
        <Fact name={texts.restarts}>{formatCount(restartsOf(pod))}</Fact>
      </dl>
    </article>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd className="number">{children}</dd>
    </div>
  );
}
