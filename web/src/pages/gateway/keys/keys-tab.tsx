/** The keys of the gateway. */
import { useQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";
import type { QueueRow, StateWord } from "../../../../../src/console/rows.ts";
import type { KeyEntry } from "../../../../../src/gateway/key.ts";
import { gatewayKeysQuery } from "../../../api/gateway.ts";
import { type RightState, useRight } from "../../../api/session.ts";
import { Button } from "../../../parts/buttons.tsx";
import { formatCount } from "../../../parts/format.ts";
import { Empty } from "../../../parts/notices.tsx";
import { Ago, formatMoment, State } from "../../../parts/states.tsx";
import { type Column, sourceOf, Table } from "../../../parts/table/table.tsx";
import { LIMIT_NAMES, LIMITS, type ValidKey } from "./form.ts";
import { KeyActionDialog, type OpenDialog } from "./key-actions.tsx";

export function KeysTab({ queues }: { readonly queues: readonly QueueRow[] }) {
  const query = useQuery(gatewayKeysQuery);
  const { data } = query;
  const [open, setOpen] = useState<OpenDialog>();
  const namespace = data?.namespace ?? "";
  const right = { group: "", resource: "secrets", namespace };
  const canCreate = useRight({ ...right, verb: "create" });
  const canChange = useRight({ ...right, verb: "patch" });
  const canDelete = useRight({ ...right, verb: "delete" });
  const { keys = [] } = data ?? {};
  const create = (
    <Button
      look="primary"
      icon={<Plus size={14} aria-hidden />}
      right={canCreate}
      onClick={() => setOpen({ at: "create" })}
    >
      Create a key
    </Button>
  );
  return (
    <div className="stack">
      {keys.length > 0 && (
        <div className="spread">
          <span className="muted small">{`Secrets in namespace ${namespace}`}</span>
          {create}
        </div>
      )}
      <Table
        label="Keys"
        rows={keys}
        of={sourceOf(query)}
        keyOf={({ name }) => name}
        columns={columnsOf({ canChange, canDelete }, setOpen)}
        none={
          <Empty
            title="No keys yet"
            why="Without any key the gateway accepts every request, and listens on loopback only. With the first key, every request needs one."
          >
            {create}
          </Empty>
        }
      />
      {open !== undefined && data !== undefined && (
        <KeyActionDialog
          open={open}
          list={data}
          waiting={open.at === "create" ? 0 : waitingOf(queues, open.entry.name)}
          onClose={() => setOpen(undefined)}
        />
      )}
    </div>
  );
}

function waitingOf(queues: readonly QueueRow[], name: string): number {
  const all = queues.flatMap(({ keys }) => keys).filter(({ key }) => key === name);
  return all.reduce((sum, { waiting }) => sum + waiting, 0);
}

interface KeyRights {
  readonly canChange: RightState;
  readonly canDelete: RightState;
}

function columnsOf(rights: KeyRights, open: (dialog: OpenDialog) => void): readonly Column<KeyEntry>[] {
  const valid = (entry: KeyEntry) => (entry.state === "invalid" ? undefined : entry);
  return [
    { id: "name", header: "Name", cell: ({ name }) => <bdi className="strong">{name}</bdi> },
    { id: "state", header: "State", cell: (entry) => <KeyStateWord entry={entry} /> },
    {
      id: "hint",
      header: "Key",
      cell: (entry) =>
        valid(entry)
          ?.keys.filter(({ state }) => state === "active" || state === "disabled")
          .map(({ hint = "?" }) => (
            <code key={hint} className="number">
              {hint}…
            </code>
          )),
    },
    { id: "owner", header: "Owner", cell: (entry) => <bdi>{valid(entry)?.owner}</bdi> },
    {
      id: "scope",
      header: "May use",
      cell: (entry) => <bdi>{scopeText(valid(entry))}</bdi>,
      isWide: true,
    },
    { id: "limits", header: "Limits", cell: (entry) => limitsText(valid(entry)) },
    {
      id: "priority",
      header: "Priority",
      cell: (entry) => {
        const key = valid(entry);
        return key && `${key.priority}${key.weight === 1 ? "" : ` × ${key.weight}`}`;
      },
    },
    {
      id: "expires",
      header: "Expires",
      cell: (entry) => {
        const key = valid(entry);
        if (key === undefined) return "";
        return key.expiresAt === undefined ? "never" : formatMoment(Date.parse(key.expiresAt));
      },
    },
    { id: "created", header: "Created", cell: ({ createdAt }) => <Ago at={createdAt} /> },
    {
      id: "actions",
      header: "Actions",
      cell: (entry) => <Actions entry={entry} rights={rights} open={open} />,
    },
  ];
}

/** A key that gives access, or may do so again, is revoked first, which can be seen, and then deleted. */
function Actions({
  entry,
  rights: { canChange, canDelete },
  open,
}: {
  readonly entry: KeyEntry;
  readonly rights: KeyRights;
  readonly open: (dialog: OpenDialog) => void;
}) {
  const { state } = entry;
  const isUsable = state === "active" || state === "disabled";
  return (
    <span className="keys-actions">
      {(isUsable || state === "expired") && (
        <Button look="quiet" right={canChange} onClick={() => open({ at: "change", entry })}>
          Change
        </Button>
      )}
      {isUsable &&
        USABLE_ACTIONS[state].map(([at, word]) => (
          <Button key={at} look="quiet" right={canChange} onClick={() => open({ at, entry })}>
            {word}
          </Button>
        ))}
      {!isUsable && (
        <Button look="quiet" right={canDelete} onClick={() => open({ at: "delete", entry })}>
          Delete
        </Button>
      )}
    </span>
  );
}

const USABLE_ACTIONS = {
  active: [
    ["disable", "Disable"],
    ["revoke", "Revoke"],
  ],
  disabled: [
    ["enable", "Enable"],
    ["revoke", "Revoke"],
  ],
} as const;

const STATE_WORDS: Readonly<Record<KeyEntry["state"], StateWord>> = {
  active: { word: "Active", level: "ok" },
  expired: { word: "Expired", level: "warn" },
  disabled: { word: "Disabled", level: "idle" },
  revoked: { word: "Revoked", level: "idle" },
  invalid: { word: "Invalid", level: "bad" },
};

function KeyStateWord({ entry }: { readonly entry: KeyEntry }) {
  return (
    <>
      <State state={STATE_WORDS[entry.state]} />
      {entry.state === "invalid" && <span className="muted small keys-problem">{entry.problem}</span>}
    </>
  );
}

function scopeText(key: ValidKey | undefined): string {
  if (key === undefined) return "";
  if (key.scope === "all") return "all services";
  const { namespaces = [], services = [], models = [] } = key.scope;
  return [...namespaces.map((name) => `${name}/*`), ...services, ...models].join(", ");
}

function limitsText(key: ValidKey | undefined): string {
  if (key === undefined) return "";
  const limits = LIMIT_NAMES.flatMap((name) =>
    key.limits[name] === undefined ? [] : [`${formatCount(key.limits[name])} ${LIMITS[name].unit}`],
  );
  return limits.length === 0 ? "none" : limits.join(", ");
}
