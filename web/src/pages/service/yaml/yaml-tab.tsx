/** The service as YAML: to read, and to edit. What another person stores in the meantime is never overwritten. */
import { useBlocker } from "@tanstack/react-router";
import { TriangleAlert } from "lucide-react";
import { useState } from "react";
import type { InferenceService } from "../../../../../src/api/inference-service/index.ts";
import { useRight } from "../../../api/session.ts";
import { Button, CopyButton } from "../../../parts/buttons.tsx";
import { Confirm } from "../../../parts/dialogs.tsx";
import { Failure } from "../../../parts/notices.tsx";
import { Ago } from "../../../parts/states.tsx";
import { printYaml } from "../../../parts/yaml/documents.ts";
import { YamlEditor } from "../../../parts/yaml/editor.tsx";
import { type Edit, type EditConflict, useEdit } from "./use-edit.ts";

/** The service as YAML: to read, and to edit. What another person stores in the meantime is never overwritten. */
export function YamlTab({ service }: { readonly service: InferenceService }) {
  const edit = useEdit(service);
  if (edit.text !== undefined) return <Editing edit={edit} text={edit.text} />;
  return <Reading service={service} onEdit={edit.begin} isSaved={edit.at === "saved"} />;
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
          {edit.at === "checked" ? "The API server accepts this. Nothing is stored yet." : ""}
        </span>
        <div className="row">
          <Button onClick={edit.cancel}>Cancel</Button>
          <Button disabled={edit.at === "busy"} onClick={() => void edit.check()}>
            Check
          </Button>
          <Button
            look="primary"
            disabled={edit.at === "busy" || edit.conflict !== undefined}
            onClick={() => void edit.save()}
          >
            Save
          </Button>
        </div>
      </div>
    </div>
  );
}

/** Another person has stored a change since the edit began: who, what, and the ways out. */
export function ConflictNotice({
  conflict: { changes, by, at },
  onMerge,
  onDiscard,
}: {
  readonly conflict: EditConflict;
  readonly onMerge: () => void;
  readonly onDiscard: () => void;
}) {
  return (
    <div className="failure tone-warn" role="alert">
      <TriangleAlert size={16} aria-hidden />
      <div className="stack">
        <div>
          <h3>
            The service was changed while you were editing
            {at !== undefined && (
              <span className="muted small">
                {" "}
                <Ago at={at} />
              </span>
            )}
          </h3>
          <p className="prose">
            {by === undefined
              ? "These fields were changed. Your edit is not stored yet."
              : `${by} has changed these fields. Your edit is not stored yet.`}
          </p>
          <ul className="plain-list">
            {changes.map(({ field, from, to }) => (
              <li key={field}>
                <code>
                  {field}: {shown(from)} → {shown(to)}
                </code>
              </li>
            ))}
          </ul>
        </div>
        <div className="row">
          <Button look="primary" onClick={onMerge}>
            Reload and keep my edit
          </Button>
          <Button onClick={onDiscard}>Discard my edit</Button>
        </div>
      </div>
    </div>
  );
}

const MAX_SHOWN = 120;

function shown(value: unknown): string {
  if (value === undefined) return "unset";
  const text = JSON.stringify(value);
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text;
}
