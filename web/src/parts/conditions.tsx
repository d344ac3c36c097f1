/** The conditions of an object, in their own words: those that report a fault first. */
import type { StateWord } from "../../../src/console/rows.ts";
import { type PlainColumn, PlainTable } from "./plain-table.tsx";
import { State } from "./state.tsx";
import { Ago } from "./time.tsx";

export interface ShownCondition {
  readonly type: string;
  readonly status: string;
  readonly reason?: string | undefined;
  readonly message?: string | undefined;
  readonly lastTransitionTime?: string | undefined;
}

export function Conditions({ conditions = [] }: { readonly conditions?: readonly ShownCondition[] }) {
  const sorted = [...conditions].sort((a, b) => rankOf(a) - rankOf(b) || a.type.localeCompare(b.type));
  return (
    <PlainTable
      label="Status"
      rows={sorted}
      keyOf={({ type }) => type}
      columns={COLUMNS}
      none="No conditions have been reported yet."
    />
  );
}

const COLUMNS: readonly PlainColumn<ShownCondition>[] = [
  { id: "type", header: "Type", cell: ({ type }) => type },
  {
    id: "status",
    header: "Status",
    cell: (condition) => <State state={{ word: condition.status, level: levelOf(condition) }} />,
  },
  { id: "reason", header: "Reason", cell: ({ reason = "" }) => <code>{reason}</code> },
  { id: "message", header: "Message", cell: ({ message }) => message, isWide: true },
  {
    id: "since",
    header: "Since",
    cell: ({ lastTransitionTime }) => <Ago at={lastTransitionTime} />,
    isNumber: true,
  },
];

/** Types whose True is a fault. */
const FAULT =
  /(Pressure|AtRisk|Unavailable)$|^(Degraded|Lost|Flapping|InboundBlocked|CPUFallback|GpuFault|Stalled)$/;
/** Neither status is a fault. */
const PROGRESS = /^(Progressing|Drained|ScalingActive|ScalingLimited|RestartAtRisk)$/;

function levelOf({ type, status }: ShownCondition): StateWord["level"] {
  if (status === "Unknown" || PROGRESS.test(type)) return "idle";
  const isFault = FAULT.test(type) ? status === "True" : status === "False";
  return isFault ? "bad" : "ok";
}

function rankOf(condition: ShownCondition): number {
  return ["bad", "idle", "ok"].indexOf(levelOf(condition));
}
