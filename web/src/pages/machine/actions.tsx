/** Cordon, uncordon and drain of a machine: in numbers what they do, before and after. */

import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type { Host } from "../../../../src/api/host.ts";
import { CORDON, DRAIN, type HostChange, leavingState, UNCORDON } from "../../../../src/api/host-change.ts";
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import { To } from "../../address/to.tsx";
import { type ApiObject, mergePatch } from "../../api/kube.ts";
import { useRight } from "../../api/session.ts";
import { useList } from "../../live/hooks.ts";
import { Button } from "../../parts/buttons.tsx";
import { Confirm } from "../../parts/dialogs.tsx";
import { plural } from "../../parts/format.ts";
import { Done } from "../../parts/notices.tsx";
import { State } from "../../parts/states.tsx";
import { drainEffect, type Machine } from "./running.ts";

interface MachineChange {
  readonly set: (change: HostChange) => void;
  readonly isBusy: boolean;
  /** The last change was stored. */
  readonly isDone: boolean;
  readonly error: Error | null;
}

/** Cordon, uncordon and drain of a machine: in numbers what they do, before and after. */
export function useMachineChange(kind: Machine["kind"], name: string): MachineChange {
  const resource = kind === "Host" ? "hosts" : "nodes";
  const { mutate, isPending, isSuccess, error } = useMutation({
    // A node has no drain of its own.
    mutationFn: ({ unschedulable, drain }: HostChange) =>
      mergePatch<ApiObject>(
        { resource, name },
        { spec: kind === "Host" ? { unschedulable, drain } : { unschedulable } },
      ),
  });
  return { set: mutate, isBusy: isPending, isDone: isSuccess, error };
}

export function MachineButtons({
  machine,
  change: { set, isBusy, isDone },
}: {
  readonly machine: Machine;
  readonly change: MachineChange;
}) {
  const [pending, setPending] = useState<"Cordon" | "Drain">();
  const { kind, object } = machine;
  const { name } = object.metadata;
  const right = useRight(
    kind === "Host"
      ? { verb: "patch", resource: "hosts", name }
      : { verb: "patch", group: "", resource: "nodes", name },
  );
  const isDrained = kind === "Host" && object.spec?.drain === true;
  const isCordoned = object.spec?.unschedulable === true || isDrained;
  const button = (label: string, act: () => void) => (
    <Button right={right} disabled={isBusy} onClick={act}>
      {label}
    </Button>
  );
  return (
    <>
      <Done>{isDone && !isCordoned ? "Uncordoned: new replicas can start here." : ""}</Done>
      {isCordoned ? button("Uncordon", () => set(UNCORDON)) : button("Cordon", () => setPending("Cordon"))}
      {kind === "Host" && !isDrained && button("Drain", () => setPending("Drain"))}
      <Confirm
        title={`${pending ?? "Cordon"} ${name}?`}
        look={pending === "Drain" ? "danger" : "primary"}
        isOpen={pending !== undefined}
        onClose={() => setPending(undefined)}
        act={pending ?? "Cordon"}
        isBusy={isBusy}
        onConfirm={() => {
          set(pending === "Drain" ? DRAIN : CORDON);
          setPending(undefined);
        }}
      >
        {kind === "Host" && pending === "Drain" ? (
          <DrainEffect replicas={machine.running} />
        ) : (
          <>
            <p className="prose">{cordonEffect(machine)}</p>
            {kind === "Host" && machine.running.length > 0 && (
              <p className="prose muted">
                To move the replicas to other hosts as well, drain the host instead.
              </p>
            )}
          </>
        )}
      </Confirm>
    </>
  );
}

function cordonEffect({ kind, running: { length } }: Machine): string {
  const what = plural(length, kind === "Host" ? "replica" : "pod");
  const keeps = length === 0 ? "Nothing runs here." : `${what} ${length === 1 ? "keeps" : "keep"} running.`;
  return `${keeps} No new ones start here until it is uncordoned.`;
}

function DrainEffect({ replicas }: { readonly replicas: readonly InferenceReplica[] }) {
  const { replicas: count, ready, maxSeconds, requests } = drainEffect(replicas);
  if (count === 0)
    return <p className="prose">No replica runs here. No new replicas start here until it is uncordoned.</p>;
  const moves = count === 1 ? "1 replica moves to another host" : `${count} replicas move to other hosts`;
  const [keep, drain] =
    ready === 1 ? ["The Ready replica keeps", "drains"] : [`The ${ready} Ready replicas keep`, "drain"];
  return (
    <>
      <p className="prose">{`${moves}, and no new replicas start here.`}</p>
      {ready > 0 && (
        <p className="prose">
          {`${keep} serving until a successor is Ready elsewhere, and then ${drain} for at most ${maxSeconds} s. `}
          {requests > 0 && (requests === 1 ? "1 request is running." : `${requests} requests are running.`)}
        </p>
      )}
      <p className="prose muted">Uncordon the host at any time to cancel the drain.</p>
    </>
  );
}

/** While it is cordoned: what that means here, and which services wait because of it. */
export function CordonNotice({ machine }: { readonly machine: Machine }) {
  const { name } = machine.object.metadata;
  const waiting = useList("services").rows.filter(({ attention }) => attention?.cordoned?.includes(name));
  return (
    <div className="card stack" aria-live="polite">
      <State state={{ word: "Cordoned", level: "idle" }} />
      <p className="prose">{cordonEffect(machine)}</p>
      {waiting.length > 0 && (
        <p className="prose">
          Services that wait for it:{" "}
          {waiting.map(({ namespace, name: service }) => (
            <To path={`/services/${namespace}/${service}`} key={`${namespace}/${service}`}>
              {`${namespace}/${service} `}
            </To>
          ))}
        </p>
      )}
    </div>
  );
}

/** The drain that runs: the controller's message, and what each replica does. */
export function DrainNotice({
  host: { status },
  replicas,
}: {
  readonly host: Host;
  readonly replicas: readonly InferenceReplica[];
}) {
  const drained = status?.conditions?.find(({ type }) => type === "Drained");
  if (drained?.status === "True" && replicas.length === 0)
    return (
      <div className="card stack">
        <State state={{ word: "Drained", level: "idle" }} />
        <p className="prose muted">
          No replica is left. The host can be switched off; uncordon it to use it again.
        </p>
      </div>
    );
  const isBlocked = drained?.reason === "DrainBlocked";
  return (
    <div className="card stack" aria-live="polite">
      <State state={{ word: drained?.reason ?? "Drain in progress", level: isBlocked ? "warn" : "busy" }} />
      <p className="prose">{drained?.message ?? "The controller has not reported on this drain yet."}</p>
      <ul className="stack gap-4 small">
        {replicas.map((replica) => (
          <li className="wrap" key={`${replica.metadata.namespace}/${replica.metadata.name}`}>
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
