/** Renders revisions as text. Pure. */
import { stringify } from "yaml";
import { renderChange } from "../../src/capacity/rollback/changes.ts";
import type { HistoryEntry } from "../../src/capacity/rollback/history.ts";
import { ageOf } from "../program/age.ts";
import { alignColumns } from "../program/table.ts";

/** One line per revision, oldest first, as in `kubectl rollout history`. */
export function renderHistory(entries: readonly HistoryEntry[], historyLimit: number, nowMs: number): string {
  if (entries.length === 0) return "no revisions yet";
  const rows = entries.map((entry) => [
    String(entry.revision),
    entry.hash,
    ageOf(entry.createdAt, nowMs) ?? "",
    stateOf(entry),
    entry.changes.map(renderChange).join(", "),
  ]);
  const table = alignColumns([["REVISION", "HASH", "AGE", "STATE", "CHANGE"], ...rows]);
  return [...table, ...missingLine(entries, historyLimit)].join("\n");
}

/** A gap does not prove that a revision was removed, because a restored revision gets a new number. */
function missingLine(entries: readonly HistoryEntry[], historyLimit: number): readonly string[] {
  const missing = Math.max(...entries.map(({ revision }) => revision)) - entries.length;
  if (missing <= 0) return [];
  const limit = `revisionHistoryLimit: ${historyLimit}`;
  return missing === 1
    ? [
        `1 earlier number is not listed: its revision is no longer kept (${limit}), or was restored under a new number`,
      ]
    : [
        `${missing} earlier numbers are not listed: their revisions are no longer kept (${limit}), or were restored under a new number`,
      ];
}

/** All data of one revision. */
export function renderRevision({ revision, hash, createdAt, data, changes }: HistoryEntry): string {
  const about = { revision, hash, createdAt, changes: changes.map(renderChange) };
  const stored = data === undefined ? {} : { model: data.model, spec: data.spec, template: data.template };
  return stringify({ ...about, ...stored }, { aliasDuplicateObjects: false }).trimEnd();
}

function stateOf({ isNewest, isServing }: HistoryEntry): string {
  if (isServing) return isNewest ? "serving" : "serving, being replaced";
  return isNewest ? "newest" : "";
}
