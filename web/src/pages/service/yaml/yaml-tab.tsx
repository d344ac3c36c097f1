/** The service as YAML: to read, and to edit. What another person stores in the meantime is never overwritten. */
import { useBlocker } from "@tanstack/react-router";
import { useState } from "react";
import type { InferenceService } from "../../../../../src/api/inference-service/index.ts";
import { useRight } from "../../../api/session.ts";
import { Button } from "../../../parts/button.tsx";
import { CopyButton } from "../../../parts/copy.tsx";
import { Confirm } from "../../../parts/dialog.tsx";
import { Failure } from "../../../parts/notice.tsx";
import { printYaml } from "../../../parts/yaml/documents.ts";
import { YamlEditor } from "../../../parts/yaml/editor.tsx";
import { ConflictNotice } from "./conflict.tsx";
import { type Edit, useEdit } from "./use-edit.ts";

export function YamlTab({ service }: { readonly service: InferenceService }) {
  const edit = useEdit(service);
  if (edit !== undefined && edit.text !== undefined) return <Editing edit={edit} text={edit.text} />;
  return <Reading service={service} onEdit={edit.begin} isSaved={edit.isSaved} />;
}

function Reading({
  service,
  onEdit,
  isSaved,
}: {
  readonly service: InferenceService;
  readonly onEdit: () => void;
  readonly isSaved: boolean;
}) {
  const { namespace = "default", name } = service.metadata;
  const right = useRight({ verb: "update", resource: "inferenceservices", namespace, name });
  const [hasStatus, setHasStatus] = useState(false);
  const { status: _, ...withoutStatus } = service;
  const yaml = printYaml(hasStatus ? service : withoutStatus);
  return (
    <div className="stack">
      <div className="spread">
        <label className="row small">
          <input
            type="checkbox"
            checked={hasStatus}
            onChange={({ target }) => setHasStatus(target.checked)}
          />
          With status
        </label>
        <div className="row">
          {isSaved && <span className="small muted">Saved</span>}
          <CopyButton value={yaml} />
          <Button right={right} onClick={onEdit}>
            Edit
          </Button>
        </div>
      </div>
      <YamlEditor label="YAML of the service" value={yaml} faults={[]} isReadOnly />
    </div>
  );
}

/** An edit that is not saved is lost with its tab. */
function AskBeforeLeaving() {
  const blocker = useBlocker({
    shouldBlockFn: ({ current, next }) =>
      current.pathname !== next.pathname || tabOf(current.search) !== tabOf(next.search),
    enableBeforeUnload: true,
    withResolver: true,
  });
  if (blocker.status !== "blocked") return null;
  return (
    <Confirm
      title="Leave without saving?"
      act="Leave"
      isOpen
      isBusy={false}
      onClose={blocker.reset}
      onConfirm={blocker.proceed}
    >
      <p>Your edit of the YAML is not stored, and is lost when you leave.</p>
    </Confirm>
  );
}

function tabOf(search: object): string | undefined {
  return (search as { readonly tab?: string }).tab;
}

function Editing({ edit, text }: { readonly edit: Edit; readonly text: string }) {
  return (
    <div className="stack">
      <AskBeforeLeaving />
      {edit.conflict !== undefined && (
        <ConflictNotice conflict={edit.conflict} onMerge={edit.merge} onDiscard={edit.cancel} />
      )}
      {edit.clashes.length > 0 && (
        <p className="prose">{`Both of you changed ${edit.clashes.join(", ")}. The text has your value: check it before you save.`}</p>
      )}
      {edit.failure !== undefined && <Failure error={edit.failure} />}
      <YamlEditor label="YAML of the service" value={text} faults={edit.faults} onChange={edit.change} />
      <div className="spread">
        <span className="muted small">
          {edit.isChecked ? "The API server accepts this. Nothing is stored yet." : ""}
        </span>
        <div className="row">
          <Button onClick={edit.cancel}>Cancel</Button>
          <Button disabled={edit.isBusy} onClick={() => void edit.check()}>
            Check
          </Button>
          <Button
            look="primary"
            disabled={edit.isBusy || edit.conflict !== undefined}
            onClick={() => void edit.save()}
          >
            Save
          </Button>
        </div>
      </div>
    </div>
  );
}
