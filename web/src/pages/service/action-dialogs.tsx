/** The dialogs of the actions: each says in numbers what happens. */
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { ANNOTATION_RESTARTED_AT } from "../../../../src/api/group.ts";
import { isoSeconds } from "../../../../src/util/iso-seconds.ts";
import { deleteObject, mergePatch, type Place } from "../../api/kube.ts";
import { useLive } from "../../live/hooks.ts";
import { Confirm } from "../../parts/dialog.tsx";
import { formatBytes } from "../../parts/format.ts";
import { Failure } from "../../parts/notice.tsx";
import { serviceText } from "../../texts/service.ts";
import { drainSecondsOf, type ServiceObjects } from "./service-state.ts";

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
  const { actions } = serviceText;
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
          title={serviceText.restart.title(name)}
          act={actions.restart}
          says={[serviceText.restart.says(objects.pods.length)]}
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
          title={serviceText.suspend.title(name)}
          act={actions.suspend}
          says={[suspendSays(objects)]}
          run={(place) => mergePatch(place, { spec: { suspend: true } })}
        />
      );
    case "resume":
      return (
        <Simple
          {...props}
          look="primary"
          title={`${actions.resume} ${name}`}
          act={actions.resume}
          says={[serviceText.resume(objects.service.spec.replicas)]}
          run={(place) => mergePatch(place, { spec: { suspend: false } })}
        />
      );
    case "delete":
      return (
        <Simple
          {...props}
          title={serviceText.delete.title(name)}
          act={actions.delete}
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
  onClose,
  title,
  act,
  look = "danger",
  says,
  run,
}: DialogProps & {
  readonly title: string;
  readonly act: string;
  readonly look?: "danger" | "primary";
  readonly says: readonly string[];
  readonly run: (place: Place) => Promise<unknown>;
}) {
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => run(placeOf(objects)),
    onSuccess: onClose,
  });
  return (
    <Confirm
      title={title}
      act={act}
      look={look}
      isOpen
      isBusy={isPending}
      onClose={onClose}
      onConfirm={() => mutate()}
    >
      {says.map((line) => (
        <p key={line} className="prose">
          {line}
        </p>
      ))}
      {error !== null && <Failure error={error} />}
    </Confirm>
  );
}

const MAX_REPLICAS = 100;

function Scale({ objects, onClose, onDone }: DialogProps) {
  const { service } = objects;
  const { name } = service.metadata;
  const [count, setCount] = useState(String(service.spec.replicas));
  const replicas = Number(count);
  const isValid = count !== "" && Number.isInteger(replicas) && replicas >= 0 && replicas <= MAX_REPLICAS;
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => mergePatch(placeOf(objects), { spec: { replicas } }),
    onSuccess: () => {
      onDone(serviceText.scale.done(replicas));
      onClose();
    },
  });
  return (
    <Confirm
      title={serviceText.scale.title(name)}
      act={serviceText.actions.scale}
      look="primary"
      isOpen
      isBusy={isPending || !isValid}
      onClose={onClose}
      onConfirm={() => mutate()}
    >
      <label className="field">
        <span className="small muted">{serviceText.scale.label}</span>
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
        <p className="muted prose">{serviceText.scale.autoscaled}</p>
      )}
      {error !== null && <Failure error={error} />}
    </Confirm>
  );
}

function scaleSays({ service, row }: ServiceObjects, replicas: number): string {
  const { scale } = serviceText;
  const before = service.spec.replicas;
  if (replicas === before) return scale.same;
  if (replicas === 0) return scale.zero;
  if (replicas < before) return scale.fewer(before - replicas, drainSecondsOf(service));
  const each = row === undefined || row.desired === 0 ? undefined : row.claimedBytes / row.desired;
  return scale.more(replicas - before, each === 0 ? "–" : formatBytes(each));
}

function suspendSays({ service, replicas, pods, row }: ServiceObjects): string {
  const count = replicas.length + pods.length;
  return serviceText.suspend.says(count, drainSecondsOf(service), formatBytes(row?.claimedBytes));
}

function deleteSays({ service, replicas, pods, row }: ServiceObjects): readonly string[] {
  const { delete: texts } = serviceText;
  const inFlight = Math.round(row?.performance.requestsInFlight ?? 0);
  return [
    texts.says(replicas.length + pods.length, drainSecondsOf(service)),
    ...(inFlight > 0 ? [texts.requests(inFlight)] : []),
    ...((row?.claimedBytes ?? 0) > 0 ? [texts.frees(formatBytes(row?.claimedBytes))] : []),
    texts.keeps,
  ];
}

function placeOf({ service: { metadata } }: ServiceObjects): Place {
  return {
    resource: "inferenceservices",
    namespace: metadata.namespace ?? "default",
    name: metadata.name,
  };
}
