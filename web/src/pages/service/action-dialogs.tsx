import { useState } from "react";
import { ANNOTATION_RESTARTED_AT } from "../../../../src/api/group.ts";
import { isoSeconds } from "../../../../src/util/iso-seconds.ts";
import { deleteObject, mergePatch, type Place } from "../../api/kube.ts";
import { useLive } from "../../live/hooks.ts";
import { ConfirmAction } from "../../parts/dialogs.tsx";
import { formatBytes, plural } from "../../parts/format.ts";
import { drainSecondsOf, type ServiceObjects } from "./objects.ts";

export type ServiceAction = "scale" | "restart" | "suspend" | "resume" | "delete";

interface DialogProps {
  readonly objects: ServiceObjects;
  readonly onClose: () => void;
  /** What was done, where the page does not show it at once. */
  readonly onDone: (what: string) => void;
}

export function ServiceActionDialog({
  action,
  objects,
  onClose,
  onDone,
}: DialogProps & { readonly action: ServiceAction }) {
  const { name } = objects.service.metadata;
  const nowMs = useLive().nowMs();
  const props = { objects, onClose, onDone };
  switch (action) {
    case "scale":
      return <Scale {...props} />;
    case "restart":
      return (
        <Simple
          {...props}
          title={`Restart the pods of ${name}`}
          act="Restart"
          says={[
            `${plural(objects.pods.length, "pod")} ${objects.pods.length === 1 ? "is" : "are"} replaced one after another, with the current images and defaults. The service keeps answering if it has more than one replica.`,
          ]}
          run={(place) => {
            const annotations = { [ANNOTATION_RESTARTED_AT]: isoSeconds(nowMs) };
            return mergePatch(place, { metadata: { annotations } });
          }}
        />
      );
    case "suspend":
      return (
        <Simple
          {...props}
          title={`Suspend ${name}`}
          act="Suspend"
          says={[suspendSays(objects)]}
          run={(place) => mergePatch(place, { spec: { suspend: true } })}
        />
      );
    case "resume":
      return (
        <Simple
          {...props}
          look="primary"
          title={`Resume ${name}`}
          act="Resume"
          says={[
            `${plural(objects.service.spec.replicas, "replica")} ${objects.service.spec.replicas === 1 ? "starts" : "start"} as soon as machines have the memory.`,
          ]}
          run={(place) => mergePatch(place, { spec: { suspend: false } })}
        />
      );
    case "delete":
      return (
        <Simple
          {...props}
          title={`Delete ${name}`}
          act="Delete"
          says={deleteSays(objects)}
          run={deleteObject}
        />
      );
    default:
      return action satisfies never;
  }
}

function Simple({
  objects,
  says,
  run,
  look = "danger",
  onClose,
  title,
  act,
}: DialogProps & {
  readonly title: string;
  readonly act: string;
  readonly look?: "danger" | "primary";
  readonly says: readonly string[];
  readonly run: (place: Place) => Promise<unknown>;
}) {
  return (
    <ConfirmAction title={title} act={act} look={look} run={() => run(placeOf(objects))} onClose={onClose}>
      {says.map((line) => (
        <p key={line} className="prose">
          {line}
        </p>
      ))}
    </ConfirmAction>
  );
}

const MAX_REPLICAS = 100;

function Scale({ objects, onClose, onDone }: DialogProps) {
  const { service } = objects;
  const { name } = service.metadata;
  const [count, setCount] = useState(String(service.spec.replicas));
  const replicas = Number(count);
  const isValid = count !== "" && Number.isInteger(replicas) && replicas >= 0 && replicas <= MAX_REPLICAS;
  return (
    <ConfirmAction
      title={`Scale ${name}`}
      act="Scale"
      look="primary"
      isReady={isValid}
      run={() => mergePatch(placeOf(objects), { spec: { replicas } })}
      onDone={() => onDone(`Scaled to ${plural(replicas, "replica")}.`)}
      onClose={onClose}
    >
      <label className="field">
        <span className="small muted">Replicas</span>
        <input
          type="number"
          className="number-input"
          min={0}
          max={MAX_REPLICAS}
          value={count}
          onChange={({ target }) => setCount(target.value)}
        />
      </label>
      {isValid && <p className="prose">{scaleSays(objects, replicas)}</p>}
      {service.spec.autoscaling !== undefined && (
        <p className="muted prose">
          An autoscaler sets the replicas of this service and may change the number again.
        </p>
      )}
    </ConfirmAction>
  );
}

function scaleSays({ service, row }: ServiceObjects, replicas: number): string {
  const before = service.spec.replicas;
  if (replicas === before) return "No change.";
  if (replicas === 0) return "All replicas stop. The service and its address stay.";
  if (replicas < before) return `${drained(before - replicas, drainSecondsOf(service))}.`;
  const each = row === undefined || row.desired === 0 ? 0 : row.claimedBytes / row.desired;
  const memory = each === 0 ? "" : `, each with about ${formatBytes(each)} of memory`;
  return `${plural(replicas - before, "replica")} more${memory}.`;
}

function suspendSays({ service, replicas, pods, row }: ServiceObjects): string {
  const count = replicas.length + pods.length;
  return `${drained(count, drainSecondsOf(service))}. ${formatBytes(row?.claimedBytes)} of memory become free. Resume starts them again.`;
}

function deleteSays({ service, replicas, pods, row }: ServiceObjects): readonly string[] {
  const count = replicas.length + pods.length;
  const inFlight = Math.round(row?.performance.requestsInFlight ?? 0);
  return [
    count === 0 ? "The service has no replicas." : `${drained(count, drainSecondsOf(service))}.`,
    ...(inFlight > 0 ? [`${plural(inFlight, "request")} ${inFlight === 1 ? "is" : "are"} running.`] : []),
    ...((row?.claimedBytes ?? 0) > 0 ? [`${formatBytes(row?.claimedBytes)} of memory become free.`] : []),
    "Clients get errors at its address. The Model and its files stay.",
  ];
}

function drained(count: number, seconds: number): string {
  const [drain, stop] = count === 1 ? ["drains", "stops"] : ["drain", "stop"];
  return `${plural(count, "replica")} ${drain} for at most ${seconds} s, then ${stop}`;
}

function placeOf({ service: { metadata } }: ServiceObjects): Place {
  return {
    resource: "inferenceservices",
    namespace: metadata.namespace ?? "default",
    name: metadata.name,
  };
}
