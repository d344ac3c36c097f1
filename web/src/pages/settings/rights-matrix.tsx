/** What the reader may do, as a matrix of kinds and verbs. */
import { Check, Minus } from "lucide-react";
import { useNamespace } from "../../address/search.ts";
import { useRight } from "../../api/session.ts";
import { Hint } from "../../parts/button.tsx";
import { type PlainColumn, PlainTable } from "../../parts/plain-table.tsx";
import { settingsText } from "../../texts/settings.ts";

type Verb = keyof typeof settingsText.verbs;
type ResourceWord = keyof typeof settingsText.resources;

interface RightRow {
  readonly id: ResourceWord;
  readonly resource: string;
  readonly group?: string;
  readonly subresource?: string;
  readonly isNamespaced: boolean;
  readonly verbs: readonly Verb[];
}

const ALL = ["list", "create", "patch", "delete"] as const;
const ROWS: readonly RightRow[] = [
  { id: "inferenceservices", resource: "inferenceservices", isNamespaced: true, verbs: ALL },
  { id: "models", resource: "models", isNamespaced: true, verbs: ALL },
  { id: "inferencereplicas", resource: "inferencereplicas", isNamespaced: true, verbs: ["list"] },
  { id: "hosts", resource: "hosts", isNamespaced: false, verbs: ALL },
  { id: "nodes", resource: "nodes", group: "", isNamespaced: false, verbs: ["list", "patch"] },
  { id: "events", resource: "events", group: "", isNamespaced: true, verbs: ["list"] },
  { id: "secrets", resource: "secrets", group: "", isNamespaced: true, verbs: ["list", "create"] },
];

export function RightsMatrix() {
  const namespace = useNamespace();
  return (
    <PlainTable
      label={settingsText.rights}
      rows={ROWS}
      keyOf={({ id }) => id}
      columns={columnsIn(namespace)}
      none=""
    />
  );
}

function columnsIn(namespace: string): readonly PlainColumn<RightRow>[] {
  return [
    {
      id: "resource",
      header: settingsText.resource,
      cell: ({ id }) => settingsText.resources[id],
    },
    ...ALL.map((verb) => ({
      id: verb,
      header: settingsText.verbs[verb],
      cell: (row: RightRow) => <RightMark row={row} verb={verb} namespace={namespace} />,
    })),
  ];
}

function RightMark({
  row,
  verb,
  namespace,
}: {
  readonly row: RightRow;
  readonly verb: Verb;
  readonly namespace: string;
}) {
  if (!row.verbs.includes(verb)) return null;
  return <AskedMark row={row} verb={verb} namespace={namespace} />;
}

function AskedMark({
  row: { resource, group, isNamespaced },
  verb,
  namespace,
}: {
  readonly row: RightRow;
  readonly verb: Verb;
  readonly namespace: string;
}) {
  const { isAllowed, why = "" } = useRight({
    verb,
    resource,
    ...(group !== undefined && { group }),
    ...(isNamespaced && namespace !== "" && { namespace }),
  });
  if (isAllowed)
    return (
      <span className="right-yes">
        <Check size={14} aria-hidden /> {settingsText.yes}
      </span>
    );
  return (
    <Hint text={why}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the reason must be reachable by the keyboard */}
      <span className="muted right-no" tabIndex={0}>
        <Minus size={14} aria-hidden /> {settingsText.no}
      </span>
    </Hint>
  );
}
