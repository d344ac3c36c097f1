/** The names under which clients reach each service. */

import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { ServiceRow, StateWord } from "../../../../src/console/rows.ts";
import { useNamespace } from "../../address/search.ts";
import { type GatewayModel, gatewayModelsQuery } from "../../api/gateway.ts";
import { useList } from "../../live/hooks.ts";
import { Command, CopyButton } from "../../parts/buttons.tsx";
import { cutReason, formatCount, formatCut } from "../../parts/format.ts";
import { GatewayFailure, versionOf } from "../../parts/gateway-key-form.tsx";
import { Empty } from "../../parts/notices.tsx";
import { ServiceLink } from "../../parts/objects/objects.tsx";
import type { ListFilter } from "../../parts/table/filters.tsx";
import { type Column, stateColumn, Table } from "../../parts/table/table.tsx";

interface NameRow {
  readonly model: GatewayModel;
  readonly state: StateWord;
  readonly cut: ServiceRow["contextCut"];
  /** Base URL of the service, without the name of the model. */
  readonly baseUrl: string;
}

export function ModelsTab({ gatewayUrl }: { readonly gatewayUrl: string }) {
  const services = useList("services");
  const version = useMemo(() => versionOf(services.rows), [services.rows]);
  const { data, error, isPending, refetch } = useQuery(gatewayModelsQuery(version));
  const namespace = useNamespace();
  const base = gatewayUrl.replace(/\/+$/, "");
  const all = useMemo(() => nameRows(data ?? [], services.rows, base), [data, services.rows, base]);
  const here = useMemo(
    () => all.filter(({ model }) => namespace === "" || model.service.startsWith(`${namespace}/`)),
    [all, namespace],
  );
  if (error !== null) return <GatewayFailure error={error} onRetry={() => void refetch()} />;
  return (
    <div className="stack">
      <dl className="wrap">
        <BaseUrl label="Base URL for OpenAI clients" url={`${base}/v1`} />
        <BaseUrl label="Base URL for Anthropic clients" url={base} />
      </dl>
      <Table
        label="Models"
        rows={here}
        of={{ isSynced: !isPending, refusal: undefined }}
        keyOf={({ model }) => `${model.id} ${model.service}`}
        columns={COLUMNS}
        none={
          <Empty
            title="No models yet"
            why="Each service appears here under its public names as soon as it exists."
          />
        }
        list={{ id: "gateway-models", defaultSort: "name", filter: FILTER }}
      />
    </div>
  );
}

const FILTER: ListFilter<NameRow> = {
  textsOf: ({ model: { id, aliases, service } }) => [id, ...aliases, service],
};

function BaseUrl({ label, url }: { readonly label: string; readonly url: string }) {
  return (
    <div className="field">
      <dt className="muted small">{label}</dt>
      <dd>
        <Command>{url}</Command>
      </dd>
    </div>
  );
}

const COLUMNS: readonly Column<NameRow>[] = [
  {
    id: "name",
    header: "Model name",
    value: ({ model }) => model.id,
    cell: ({ model }) => (
      <span className="line gap-4 gateway-copied">
        <bdi className="mono truncate" title={[model.id, ...model.aliases].join(", ")}>
          {model.id}
        </bdi>
        <CopyButton value={model.id} label="Copy the model name" />
      </span>
    ),
    width: "minmax(144px, 2fr)",
  },
  {
    id: "service",
    header: "Service",
    value: ({ model }) => model.service,
    cell: ({ model }) => <ServiceLink service={model.service} />,
    width: "minmax(128px, 1.5fr)",
  },
  stateColumn("minmax(136px, 1fr)"),
  { id: "mode", header: "API", value: ({ model }) => model.mode, width: "80px" },
  {
    id: "context",
    header: "Context",
    value: ({ model, cut }) => cut?.served ?? model.context_length ?? undefined,
    cell: ({ model, cut }) =>
      cut === undefined ? (
        formatCount(model.context_length ?? undefined)
      ) : (
        <span title={cutReason(cut)}>{formatCut(cut)}</span>
      ),
    width: "112px",
    isNumber: true,
  },
  {
    id: "base",
    header: "Base URL of the service",
    value: ({ baseUrl }) => baseUrl,
    cell: ({ baseUrl, model: { service } }) => (
      <span className="line gap-4 gateway-copied">
        <span className="mono muted truncate" title={baseUrl}>
          {`/s/${service}/v1`}
        </span>
        <CopyButton value={baseUrl} label="Copy the base URL" />
      </span>
    ),
    width: "minmax(160px, 2fr)",
    isWideOnly: true,
  },
];

const WORDS: Readonly<Record<GatewayModel["state"], StateWord>> = {
  ready: { word: "Ready", level: "ok" },
  starting: { word: "Starting", level: "busy" },
  idle: { word: "Idle", level: "idle" },
  off: { word: "Off", level: "idle" },
};

function nameRows(
  models: readonly GatewayModel[],
  services: readonly ServiceRow[],
  base: string,
): readonly NameRow[] {
  const known = new Map(services.map((row) => [`${row.namespace}/${row.name}`, row]));
  return models.map((model) => ({
    model,
    state: known.get(model.service)?.state ?? WORDS[model.state],
    cut: known.get(model.service)?.contextCut,
    baseUrl: `${base}/s/${model.service}/v1`,
  }));
}
