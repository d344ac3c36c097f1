/** Which labels to apply to a Node or a Host. Pure. */
import { MANAGER_LABELS } from "../../../src/api/group.ts";
import {
  isRecord,
  type OwnedFields,
  ownedFieldsOf,
  ownedNames,
} from "../../../src/kube/apply/owned-fields.ts";
import type { KubeObject } from "../../../src/kube/types.ts";
import { isDeepEqual } from "../../../src/util/deep-equal.ts";

type Labels = Readonly<Record<string, string>>;

/**
 * The complete set of our labels, or undefined if the object has exactly these. A label that another manager has set stays as it
 * is: a user who overwrites a label knows more than its labeler.
 */
export function planLabels(
  { metadata: { labels = {}, managedFields } }: KubeObject,
  apiVersion: string,
  derived: Labels,
): Labels | undefined {
  const owned = ownedFieldsOf(managedFields, { manager: MANAGER_LABELS }, apiVersion);
  const ours = new Set(ownedNames(owned?.["f:metadata"]?.["f:labels"] ?? {}));
  const wanted = Object.fromEntries(
    Object.entries(derived).filter(([key, value]) =>
      // The server refuses to change a label that another manager owns too.
      ours.has(key)
        ? labels[key] === value || !isOwnedByOthers(managedFields, key)
        : labels[key] === undefined,
    ),
  );
  const present = Object.fromEntries([...ours].map((key) => [key, labels[key] ?? ""]));
  return isDeepEqual(wanted, present) ? undefined : wanted;
}

function isOwnedByOthers(managedFields: readonly unknown[] = [], key: string): boolean {
  return managedFields.some((entry) => {
    if (!isRecord(entry) || (entry.manager === MANAGER_LABELS && entry.operation === "Apply")) return false;
    const fields = entry.fieldsV1 as Readonly<Record<string, OwnedFields | undefined>> | undefined;
    return fields?.["f:metadata"]?.["f:labels"]?.[`f:${key}`] !== undefined;
  });
}
