/** The keys of the gateway. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";
import type { QueueRow, StateWord } from "../../../../../src/console/rows.ts";
import type { KeyEntry } from "../../../../../src/gateway/key.ts";
import { changeGatewayKey, gatewayKeysQuery } from "../../../api/gateway.ts";
import { type RightState, useRight } from "../../../api/session.ts";
import { Button } from "../../../parts/button.tsx";
import { Confirm } from "../../../parts/dialog.tsx";
import { formatCount } from "../../../parts/format.ts";
import { Empty, Failure, Skeleton } from "../../../parts/notice.tsx";
import { type PlainColumn, PlainTable } from "../../../parts/plain-table.tsx";
import { State } from "../../../parts/state.tsx";
import { Ago, formatMoment } from "../../../parts/time.tsx";
import { gatewayTexts } from "../../../texts/gateway.ts";
import { LIMIT_NAMES } from "./form.ts";
import { KeyDialog } from "./key-dialog.tsx";
import "./keys.css";

const texts = gatewayTexts.keys;

type ValidKey = Exclude<KeyEntry, { state: "invalid" }>;

type OpenDialog =
  | { readonly at: "create" }
  | { readonly at: "change"; readonly entry: ValidKey }
  | { readonly at: "revoke"; readonly entry: ValidKey };

export function KeysTab({ queues }: { readonly queues: readonly QueueRow[] }) {
  const { data, error, isPending, refetch } = useQuery(gatewayKeysQuery);
  const [open, setOpen] = useState<OpenDialog>();
  const namespace = data?.namespace ?? "";
  const right = { group: "", resource: "secrets", namespace };
  const canCreate = useRight({ ...right, verb: "create" });
  const canChange = useRight({ ...right, verb: "patch" });
  if (error !== null) return <Failure error={error} onRetry={() => void refetch()} />;
  if (isPending || data === undefined) return <Skeleton />;
  const { keys } = data;
  const create = (
    <Button
      look="primary"
      icon={<Plus size={14} aria-hidden />}
      right={canCreate}
      onClick={() => setOpen({ at: "create" })}
    >
      {texts.create}
    </Button>
  );
  return (
    <div className="stack">
      {keys.length === 0 ? (
        <Empty title={texts.empty} why={texts.emptyWhy}>
          {create}
        </Empty>
      ) : (
        <>
          <div className="spread">
            <span className="muted small">{texts.namespace(namespace)}</span>
            {create}
          </div>
          <PlainTable
            label={texts.label}
            rows={keys}
            keyOf={({ name }) => name}
            columns={columnsOf(canChange, setOpen)}
            none={texts.empty}
          />
        </>
      )}
      {open?.at === "create" && <KeyDialog entry={undefined} onClose={() => setOpen(undefined)} />}
      {open?.at === "change" && <KeyDialog entry={open.entry} onClose={() => setOpen(undefined)} />}
      {open?.at === "revoke" && (
        <RevokeDialog
          entry={open.entry}
          isLast={keys.filter(({ state }) => state === "active").length <= 1}
          waiting={waitingOf(queues, open.entry.name)}
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

function RevokeDialog({
  entry: { name },
  isLast,
  waiting,
  onClose,
}: {
  readonly entry: ValidKey;
  readonly isLast: boolean;
  readonly waiting: number;
  readonly onClose: () => void;
}) {
  const client = useQueryClient();
  const [isBusy, setIsBusy] = useState(false);
  const [error, setError] = useState<Error>();
  const revoke = async (): Promise<void> => {
    setIsBusy(true);
    try {
      await changeGatewayKey(name, { isRevoked: true });
      await client.invalidateQueries({ queryKey: gatewayKeysQuery.queryKey });
      // What the reader's own key may use may have changed.
      void client.invalidateQueries({ queryKey: ["gateway"] });
      onClose();
    } catch (cause) {
      setError(cause instanceof Error ? cause : new Error(String(cause)));
      setIsBusy(false);
    }
  };
  return (
    <Confirm
      title={texts.revokeTitle(name)}
      isOpen
      onClose={onClose}
      act={texts.revoke}
      isBusy={isBusy}
      onConfirm={() => void revoke()}
    >
      <p>{texts.revokeWhy}</p>
      {waiting > 0 && <p>{texts.revokeWaiting(waiting)}</p>}
      {isLast && <p className="keys-last">{texts.revokeLast}</p>}
      {error !== undefined && <Failure error={error} />}
    </Confirm>
  );
}

function columnsOf(
  canChange: RightState,
  open: (dialog: OpenDialog) => void,
): readonly PlainColumn<KeyEntry>[] {
  const valid = (entry: KeyEntry) => (entry.state === "invalid" ? undefined : entry);
  return [
    { id: "name", header: texts.name, cell: ({ name }) => <bdi className="keys-name">{name}</bdi> },
    { id: "state", header: texts.state, cell: (entry) => <KeyStateWord entry={entry} /> },
    {
      id: "hint",
      header: texts.hint,
      cell: (entry) =>
        valid(entry)
          ?.keys.filter(({ state }) => state === "active")
          .map(({ hint = "?" }) => (
            <code key={hint} className="keys-hint">
              {hint}…
            </code>
          )),
    },
    { id: "owner", header: texts.owner, cell: (entry) => <bdi>{valid(entry)?.owner}</bdi> },
    {
      id: "scope",
      header: texts.scope,
      cell: (entry) => <bdi>{scopeText(valid(entry))}</bdi>,
      isWide: true,
    },
    { id: "limits", header: texts.limits, cell: (entry) => limitsText(valid(entry)) },
    {
      id: "priority",
      header: texts.priority,
      cell: (entry) => {
        const key = valid(entry);
        return key && `${key.priority}${key.weight === 1 ? "" : ` × ${key.weight}`}`;
      },
    },
    {
      id: "expires",
      header: texts.expires,
      cell: (entry) => {
        const key = valid(entry);
        if (key === undefined) return "";
        return key.expiresAt === undefined ? texts.never : formatMoment(Date.parse(key.expiresAt));
      },
    },
    { id: "created", header: texts.created, cell: ({ createdAt }) => <Ago at={createdAt} /> },
    {
      id: "actions",
      header: texts.actions,
      cell: (entry) => {
        const key = valid(entry);
        if (key === undefined || key.state === "revoked") return "";
        return (
          <span className="keys-actions">
            <Button look="quiet" right={canChange} onClick={() => open({ at: "change", entry: key })}>
              {texts.change}
            </Button>
            <Button look="quiet" right={canChange} onClick={() => open({ at: "revoke", entry: key })}>
              {texts.revoke}
            </Button>
          </span>
        );
      },
    },
  ];
}

const STATE_WORDS: Readonly<Record<KeyEntry["state"], StateWord>> = {
  active: { word: "Active", level: "ok" },
  expired: { word: "Expired", level: "warn" },
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
  if (key.scope === "all") return texts.everything;
  const { namespaces = [], services = [], models = [] } = key.scope;
  return [...namespaces.map((name) => `${name}/*`), ...services, ...models].join(", ");
}

function limitsText(key: ValidKey | undefined): string {
  if (key === undefined) return "";
  const limits = LIMIT_NAMES.flatMap((name) =>
    key.limits[name] === undefined ? [] : [`${formatCount(key.limits[name])} ${texts.limitWords[name]}`],
  );
  return limits.length === 0 ? texts.noLimits : limits.join(", ");
}
