/** The way of one service to its first answer, from the live objects. */
import { useList, useObjects } from "../../live/hooks.ts";
import { Failure, Skeleton } from "../notice.tsx";
import { FirstAnswer } from "./first-answer.tsx";
import { type StartingObjects, startProgressOf } from "./progress.ts";
import { StartSteps } from "./start.tsx";

export function StartOf({ namespace, name }: { readonly namespace: string; readonly name: string }) {
  const { get, rows, refusal } = useObjects(`service/${namespace}/${name}`);
  const row = useList("services").get(`${namespace}/${name}`);
  const service = get("service") as StartingObjects["service"] | undefined;
  if (refusal !== undefined) return <Failure error={refusal} />;
  if (service === undefined) return <Skeleton rows={4} />;
  const ofKind = (kind: string) => rows.filter((one) => (one as { readonly kind: string }).kind === kind);
  const replicas = ofKind("InferenceReplica") as StartingObjects["replicas"];
  const pods = ofKind("Pod") as StartingObjects["pods"];
  const progress = startProgressOf({ service, replicas, pods, row });
  return (
    <StartSteps progress={progress} attention={row?.attention}>
      <FirstAnswer
        service={`${namespace}/${name}`}
        mode={service.status?.mode ?? service.spec.mode ?? "chat"}
        isReady={progress.stage === "ready"}
      />
    </StartSteps>
  );
}
