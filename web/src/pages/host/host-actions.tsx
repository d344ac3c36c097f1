/** Cordon, uncordon and drain of a host. */
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type { Host } from "../../../../src/api/host.ts";
import { CORDON, DRAIN, type HostChange, leavingState, UNCORDON } from "../../../../src/api/host-change.ts";
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import { type ApiObject, mergePatch } from "../../api/kube.ts";
import { useRight } from "../../api/session.ts";
import { Button } from "../../parts/button.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { Failure } from "../../parts/notice.tsx";
import { State } from "../../parts/state.tsx";
import { hostText } from "../../texts/host.ts";
import { CordonButton } from "./cordon.tsx";
import { drainEffect } from "./drain-effect.ts";

const words = hostText.actions;

export interface HostActions {
  readonly change: (change: HostChange) => void;
  readonly isBusy: boolean;
  readonly isDone: boolean;
  readonly error: Error | null;
}

export function useHostActions(name: string): HostActions {
  const { mutate, isPending, isSuccess, error } = useMutation({
    mutationFn: (change: HostChange) => mergePatch<ApiObject>({ resource: "hosts", name }, { spec: change }),
  });
  return { change: mutate, isBusy: isPending, isDone: isSuccess, error };
}

export function HostButtons({
  host: { metadata, spec },
  replicas,
  actions: { change, isBusy, isDone },
}: {
  readonly host: Host;
  readonly replicas: readonly InferenceReplica[];
  readonly actions: HostActions;
}) {
  const [isAsking, setIsAsking] = useState(false);
  const right = useRight({ verb: "patch", resource: "hosts", name: metadata.name });
  const { unschedulable = false, drain = false } = spec ?? {};
  return (
    <>
      <CordonButton
        name={metadata.name}
        isCordoned={unschedulable || drain}
        running={{ count: replicas.length, what: "replica" }}
        right={right}
        isBusy={isBusy}
        isDone={isDone}
        onChange={(isCordoned) => change(isCordoned ? CORDON : UNCORDON)}
      />
      {!drain && (
        <Button right={right} disabled={isBusy} onClick={() => setIsAsking(true)}>
          {words.drain}
        </Button>
      )}
      <Confirm
        title={words.drainTitle(metadata.name)}
        isOpen={isAsking}
        onClose={() => setIsAsking(false)}
        act={words.drain}
        isBusy={isBusy}
        onConfirm={() => {
          change(DRAIN);
          setIsAsking(false);
        }}
      >
        <Effect replicas={replicas} />
      </Confirm>
    </>
  );
}

function Effect({ replicas }: { readonly replicas: readonly InferenceReplica[] }) {
  const { replicas: count, ready, maxSeconds, requests } = drainEffect(replicas);
  if (count === 0) return <p className="prose">{words.drainEmpty}</p>;
  return (
    <>
      <p className="prose">{words.drainReplicas(count)}</p>
      {ready > 0 && (
        <p className="prose">
          {words.drainServing(ready, maxSeconds)} {requests > 0 && words.drainRequests(requests)}
        </p>
      )}
      <p className="prose muted">{words.drainBack}</p>
    </>
  );
}

/** The drain that runs: the controller's message, and what each replica does. */
export function DrainNotice({
  host: { spec, status },
  replicas,
}: {
  readonly host: Host;
  readonly replicas: readonly InferenceReplica[];
}) {
  if (spec?.drain !== true) return null;
  const drained = status?.conditions?.find(({ type }) => type === "Drained");
  const isDone = drained?.status === "True" && replicas.length === 0;
  if (isDone)
    return (
      <div className="card stack">
        <State state={{ word: words.drained, level: "idle" }} />
        <p className="prose muted">{words.drainedWhy}</p>
      </div>
    );
  const isBlocked = drained?.reason === "DrainBlocked";
  return (
    <div className="card stack" aria-live="polite">
      <State state={{ word: drained?.reason ?? words.draining, level: isBlocked ? "warn" : "busy" }} />
      <p className="prose">{drained?.message ?? words.drainStarting}</p>
      <ul className="drain-list">
        {replicas.map((replica) => (
          <li key={`${replica.metadata.namespace}/${replica.metadata.name}`}>
            <bdi>
              {replica.metadata.namespace}/{replica.metadata.name}
            </bdi>
            <span className="muted">{leavingState(replica)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

export function ActionFailure({ actions }: { readonly actions: HostActions }) {
  return actions.error === null ? null : <Failure error={actions.error} />;
}
