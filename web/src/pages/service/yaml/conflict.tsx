/** Another person has stored a change since the edit began: who, what, and the ways out. */
import { TriangleAlert } from "lucide-react";
import { Button } from "../../../parts/button.tsx";
import { Ago } from "../../../parts/time.tsx";
import { serviceText } from "../../../texts/service.ts";
import type { EditConflict } from "./use-edit.ts";

const { yaml: texts } = serviceText;

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
            {texts.conflict}
            {at !== undefined && (
              <span className="muted small">
                {" "}
                <Ago at={at} />
              </span>
            )}
          </h3>
          <p className="prose">{by === undefined ? texts.conflictBySomeone : texts.conflictBy(by)}</p>
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
            {texts.merge}
          </Button>
          <Button onClick={onDiscard}>{texts.discard}</Button>
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
