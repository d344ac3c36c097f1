/** The replicas and pods of a service: each with its way to Ready, its machine and its memory. */

import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import { restartsOf, stateOfPod } from "../../../../src/verdicts/pod.ts";
import { claimBytesOf, exitText, stateOfReplica } from "../../../../src/verdicts/replica.ts";
import { formatBytes, formatCount, formatRate } from "../../parts/format.ts";
import { Empty } from "../../parts/notices.tsx";
import { MachineLink } from "../../parts/objects/objects.tsx";
import { Facts } from "../../parts/page.tsx";
import { Ago, DownloadFigures, State, Timeline } from "../../parts/states.tsx";
import type { ServiceObjects, ServicePod } from "./objects.ts";
import { stepsOfPod, stepsOfReplica } from "./progress.ts";

export function ReplicasTab({ objects }: { readonly objects: ServiceObjects }) {
  const { replicas, pods } = objects;
  if (replicas.length + pods.length === 0) return <Empty title="No replicas" why={emptyReason(objects)} />;
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

function emptyReason({ service: { spec, status } }: ServiceObjects): string {
  if (spec.suspend) return "The service is suspended. Resume it to start its replicas.";
  if (status?.phase === "Idle") return "The replicas are unloaded. The next request starts them.";
  return spec.replicas === 0
    ? "spec.replicas is 0. Scale the service to start replicas."
    : "No replica has a machine yet. The Placement tab says why.";
}

function Replica({ replica }: { readonly replica: InferenceReplica }) {
  const { metadata, spec, status } = replica;
  const { hostName } = spec.template;
  const state = stateOfReplica(replica);
  const { footprintBytes } = status?.memory ?? {};
  const contextPerSlot = status?.contextPerSlot;
  const claimed = formatBytes(claimBytesOf(replica));
  return (
    <article className="card stack" aria-label={metadata.name}>
      <header className="spread">
        <h3 className="truncate">{metadata.name}</h3>
        <State state={state} />
      </header>
      <Timeline steps={stepsOfReplica(replica)} label={metadata.name} />
      {state.message !== "" && (status?.progress === undefined || state.level === "bad") && (
        <p className="prose">{state.message}</p>
      )}
      {status?.phase === "Fetching" && status.progress !== undefined && (
        <div className="row small">
          <DownloadFigures label="Download" download={status.progress} />
        </div>
      )}
      <Facts
        facts={[
          ["Host", <MachineLink key="host" name={hostName} />],
          ["Memory", footprintBytes === undefined ? claimed : `${formatBytes(footprintBytes)} of ${claimed}`],
          [
            "Context per slot",
            contextPerSlot === undefined ? undefined : `${formatCount(contextPerSlot)} tokens`,
          ],
          ["Tokens/s", formatRate(status?.performance?.tokensPerSecond)],
          ["Restarts", formatCount(status?.restarts ?? 0)],
        ]}
      />
      <LastExit replica={replica} />
    </article>
  );
}

function LastExit({ replica: { status } }: { readonly replica: InferenceReplica }) {
  const exit = status?.lastExit;
  if (exit === undefined || exit.killedByUs === true) return null;
  return (
    <div className="small">
      <span className="muted">Last exit: </span>
      {exitText(exit)}{" "}
      {exit.at !== undefined && (
        <span className="muted">
          <Ago at={exit.at} />
        </span>
      )}
      {exit.logTail !== undefined && exit.logTail !== "" && (
        <details>
          <summary>Last lines of its log</summary>
          <pre className="log-tail">{exit.logTail}</pre>
        </details>
      )}
    </div>
  );
}

function PodCard({ pod }: { readonly pod: ServicePod }) {
  const {
    metadata,
    spec: { nodeName },
  } = pod;
  const state = stateOfPod(pod);
  return (
    <article className="card stack" aria-label={metadata.name}>
      <header className="spread">
        <h3 className="truncate">{metadata.name}</h3>
        <State state={state} />
      </header>
      <Timeline steps={stepsOfPod(pod)} label={metadata.name} />
      {state.message !== "" && <p className="prose">{state.message}</p>}
      <Facts
        facts={[
          ["Node", nodeName === undefined ? "–" : <MachineLink key="node" kind="Node" name={nodeName} />],
          ["Restarts", formatCount(restartsOf(pod))],
        ]}
      />
    </article>
  );
}
