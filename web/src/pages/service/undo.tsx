/** Goes back to an earlier revision, after the reader has seen what changes. */
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { InferenceService } from "../../../../src/api/inference-service/index.ts";
import { UNDO_PATH, type UndoAnswer } from "../../../../src/console/protocol.ts";
import { requestJson } from "../../api/request.ts";
import { useRight } from "../../api/session.ts";
import { Button } from "../../parts/button.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { Failure, Skeleton } from "../../parts/notice.tsx";

interface UndoProps {
  readonly service: InferenceService;
  /** Number of the stored revision; 0 for the one before. */
  readonly revision: number;
}

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
  const ask = (isDryRun: boolean): Promise<UndoAnswer> =>
    requestJson<UndoAnswer>(UNDO_PATH, { method: "POST", body: { namespace, name, revision, isDryRun } });
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
