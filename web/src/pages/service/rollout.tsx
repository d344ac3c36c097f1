/** The rollout of a service: the old revision beside the new one, how far it is, and the revisions to go back to. */
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { LABEL_REVISION, LABEL_SERVICE_UID } from "../../../../src/api/group.ts";
import type { InferenceService } from "../../../../src/api/inference-service/index.ts";
import { UNDO_PATH, type UndoResponse } from "../../../../src/console/protocol.ts";
import { stateOfPod } from "../../../../src/verdicts/pod.ts";
import { stateOfReplica } from "../../../../src/verdicts/replica.ts";
import { type ApiObject, listObjects } from "../../api/kube.ts";
import { requestJson } from "../../api/request.ts";
import { useRight } from "../../api/session.ts";
import { Button } from "../../parts/buttons.tsx";
import { Confirm } from "../../parts/dialogs.tsx";
import { Failure, Skeleton } from "../../parts/notices.tsx";
import { Section } from "../../parts/page.tsx";
import { Ago, State, Tag } from "../../parts/states.tsx";
import { type Column, sourceOf, Table } from "../../parts/table/table.tsx";
import { conditionOf, type ServiceObjects } from "./objects.ts";

/** The rollout of a service: the old revision beside the new one, how far it is, and the revisions before. */
export function RolloutTab({ objects }: { readonly objects: ServiceObjects }) {
  const { status } = objects.service;
  const { currentRevision, updateRevision, readyReplicas = 0 } = status ?? {};
  const progressing = conditionOf(objects.service, "Progressing");
  const isRolling = updateRevision !== undefined && updateRevision !== currentRevision;
  return (
    <div className="stack gap-24">
      <div className="row">
        <State state={stateOfRollout(progressing)} />
        <span className="muted">{progressing?.message}</span>
        <span className="muted small number">{`${readyReplicas} ready`}</span>
      </div>
      <div className="cards">
        {isRolling && <Revision title="Old" revision={currentRevision} objects={objects} />}
        <Revision
          title={isRolling ? "New" : "Serving"}
          revision={updateRevision ?? currentRevision}
          objects={objects}
        />
      </div>
      <History objects={objects} />
    </div>
  );
}

function stateOfRollout(progressing: ReturnType<typeof conditionOf>) {
  if (progressing?.reason === "RolloutStopped" || progressing?.reason === "RolloutDeadlineExceeded")
    return { word: "Stopped", level: "bad" } as const;
  return progressing?.status === "True"
    ? ({ word: "Rolling out", level: "busy" } as const)
    : ({ word: "Complete", level: "ok" } as const);
}

function Revision({
  title,
  revision,
  objects,
}: {
  readonly title: string;
  readonly revision: string | undefined;
  readonly objects: ServiceObjects;
}) {
  const isOfRevision = ({
    metadata,
  }: {
    readonly metadata: { readonly labels?: Readonly<Record<string, string>> | undefined };
  }) => metadata.labels?.[LABEL_REVISION] === revision;
  const replicas = objects.replicas.filter(isOfRevision).map((replica) => ({
    name: replica.metadata.name,
    place: replica.spec.template.hostName,
    state: stateOfReplica(replica),
  }));
  const pods = objects.pods.filter(isOfRevision).map((pod) => ({
    name: pod.metadata.name,
    place: pod.spec.nodeName ?? "",
    state: stateOfPod(pod),
  }));
  const parts = [...replicas, ...pods];
  return (
    <article className="card stack gap-8">
      <header className="spread">
        <h3>{title}</h3>
        <code>{revision ?? "–"}</code>
      </header>
      {parts.length === 0 && <p className="muted small">No replicas of this revision.</p>}
      <ul className="plain-list">
        {parts.map(({ name, place, state }) => (
          <li key={name} className="spread">
            <span className="truncate">
              {name} <span className="muted small">{place}</span>
            </span>
            <State state={state} />
          </li>
        ))}
      </ul>
    </article>
  );
}

interface StoredRevision extends ApiObject {
  readonly revision: number;
}

function History({ objects: { service } }: { readonly objects: ServiceObjects }) {
  const { namespace = "default", uid = "", generation } = service.metadata;
  const query = useQuery({
    queryKey: ["revisions", uid, generation, service.status?.updateRevision, service.status?.currentRevision],
    queryFn: ({ signal }) =>
      listObjects<StoredRevision>(
        { resource: "controllerrevisions", namespace },
        { labelSelector: `${LABEL_SERVICE_UID}=${uid}` },
        signal,
      ),
    placeholderData: keepPreviousData,
  });
  const serving = service.status?.currentRevision;
  const target = service.status?.updateRevision ?? serving;
  const hashOf = ({ metadata }: StoredRevision) => metadata.labels?.[LABEL_REVISION] ?? "";
  const columns: readonly Column<StoredRevision>[] = [
    { id: "revision", header: "Revision", cell: ({ revision }) => revision, isNumber: true },
    { id: "hash", header: "Hash", cell: (one) => <code>{hashOf(one)}</code> },
    {
      id: "state",
      header: "",
      cell: (one) => (hashOf(one) === serving ? <Tag level="ok">Serving</Tag> : ""),
      isWide: true,
    },
    {
      id: "age",
      header: "Created",
      cell: ({ metadata }) => <Ago at={metadata.creationTimestamp} />,
      isNumber: true,
    },
    {
      id: "undo",
      header: "",
      cell: (one) => (hashOf(one) === target ? "" : <Undo service={service} revision={one.revision} />),
    },
  ];
  const newestFirst = [...(query.data ?? [])].sort((a, b) => b.revision - a.revision);
  return (
    <Section title="Revisions">
      <Table
        label="Revisions"
        rows={newestFirst}
        of={sourceOf(query)}
        keyOf={({ metadata }) => metadata.name}
        columns={columns}
        none="No revision has been stored yet."
      />
    </Section>
  );
}

interface UndoProps {
  readonly service: InferenceService;
  /** Number of the stored revision; 0 for the one before. */
  readonly revision: number;
}

/** Goes back to an earlier revision, after the reader has seen what changes. */
export function Undo({ service, revision }: UndoProps) {
  const { namespace = "default", name } = service.metadata;
  const right = useRight({ verb: "patch", resource: "inferenceservices", namespace, name });
  const [isOpen, setIsOpen] = useState(false);
  return (
    <>
      <Button right={right} onClick={() => setIsOpen(true)}>
        Undo
      </Button>
      {isOpen && <UndoDialog service={service} revision={revision} onClose={() => setIsOpen(false)} />}
    </>
  );
}

function UndoDialog({ service, revision, onClose }: UndoProps & { readonly onClose: () => void }) {
  const { namespace = "default", name, generation } = service.metadata;
  const ask = (isDryRun: boolean): Promise<UndoResponse> =>
    requestJson<UndoResponse>(UNDO_PATH, { method: "POST", body: { namespace, name, revision, isDryRun } });
  const plan = useQuery({
    queryKey: ["undo", namespace, name, generation, revision],
    queryFn: () => ask(true),
    gcTime: 0,
  });
  const undo = useMutation({ mutationFn: () => ask(false), onSuccess: onClose });
  const error = plan.error ?? undo.error;
  const isNothing = plan.data?.changes.length === 0;
  return (
    <Confirm
      title={
        plan.data === undefined ? `Roll back ${name}` : `Roll back ${name} to revision ${plan.data.revision}`
      }
      act="Undo"
      look="primary"
      isOpen
      isBusy={undo.isPending || plan.data === undefined || isNothing}
      onClose={onClose}
      onConfirm={() => undo.mutate()}
    >
      {plan.isPending && <Skeleton rows={2} />}
      {isNothing && <p>The service already has the spec of that revision.</p>}
      {plan.data !== undefined && !isNothing && (
        <>
          <p className="prose">
            These fields of the spec change. The rollout replaces the replicas as for any other change.
          </p>
          <ul className="stack gap-4 undo-changes">
            {plan.data.changes.map((change) => (
              <li key={change}>
                <code>{change}</code>
              </li>
            ))}
          </ul>
        </>
      )}
      {plan.data?.notes.map((note) => (
        <p key={note} className="muted prose">
          {note}
        </p>
      ))}
      {error !== null && <Failure error={error} />}
    </Confirm>
  );
}
