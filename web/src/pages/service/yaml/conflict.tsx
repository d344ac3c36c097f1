/** Another person has stored a change since the edit began: who, what, and the ways out. */
import { TriangleAlert } from "lucide-react";
import { Button } from "../../../parts/button.tsx";
import { Ago } from "../../../parts/time.tsx";
import type { EditConflict } from "./use-edit.ts";

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
