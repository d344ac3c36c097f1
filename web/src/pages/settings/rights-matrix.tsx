/** What the reader may do, as a matrix of kinds and verbs. */
import { Check, Minus } from "lucide-react";
import { useNamespace } from "../../address/search.ts";
import { useRight } from "../../api/session.ts";
import { Hint } from "../../parts/button.tsx";
import { type PlainColumn, PlainTable } from "../../parts/plain-table.tsx";

const VERBS = { list: "See", create: "Create", patch: "Change", delete: "Delete" } as const;
type Verb = keyof typeof VERBS;

interface RightRow {
  readonly label: string;
  readonly resource: string;
  readonly group?: string;
  readonly subresource?: string;
  readonly isNamespaced: boolean;
  readonly verbs: readonly Verb[];
}

const ALL = ["list", "create", "patch", "delete"] as const;
const ROWS: readonly RightRow[] = [
  { label: "Services", resource: "inferenceservices", isNamespaced: true, verbs: ALL },
  { label: "Models", resource: "models", isNamespaced: true, verbs: ALL },
  { label: "Replicas", resource: "inferencereplicas", isNamespaced: true, verbs: ["list"] },
  { label: "Hosts", resource: "hosts", isNamespaced: false, verbs: ALL },
  { label: "Nodes", resource: "nodes", group: "", isNamespaced: false, verbs: ["list", "patch"] },
  { label: "Events", resource: "events", group: "", isNamespaced: true, verbs: ["list"] },
  {
    label: "Gateway keys (Secrets)",
    resource: "secrets",
    group: "",
    isNamespaced: true,
    verbs: ["list", "create"],
  },
];

export function RightsMatrix() {
  const namespace = useNamespace();
  return (
    <PlainTable
      label="What you may do"
      rows={ROWS}
      keyOf={({ resource }) => resource}
      columns={columnsIn(namespace)}
      none=""
    />
  );
}

function columnsIn(namespace: string): readonly PlainColumn<RightRow>[] {
  return [
    {
      id: "resource",
      header: "Resource",
      cell: ({ label }) => label,
    },
    ...ALL.map((verb) => ({
      id: verb,
      header: VERBS[verb],
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
        <Check size={14} aria-hidden /> Yes
      </span>
    );
  return (
    <Hint text={why}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the reason must be reachable by the keyboard */}
      <span className="muted right-no" tabIndex={0}>
        <Minus size={14} aria-hidden /> No
      </span>
    </Hint>
  );
}
