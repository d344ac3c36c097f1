/** Models in a host's store, and those of other programs on it. */
import type { HostInstalled, HostModel, HostStatus } from "../../../../src/api/host.ts";
import { formatBytes, formatRate } from "../../parts/format.ts";
import { Section } from "../../parts/page.tsx";
import { type PlainColumn, PlainTable } from "../../parts/plain-table.tsx";
import { Tag } from "../../parts/state.tsx";
import { Ago } from "../../parts/time.tsx";

export function ModelsOnDisk({ status }: { readonly status: HostStatus | undefined }) {
  const { models = [], installed = [], installedLeftOut = 0 } = status ?? {};
  return (
    <div className="detail-tabs">
      <PlainTable
        label={"Models on disk"}
        rows={models}
        keyOf={({ source }) => source}
        columns={MODELS}
        none="The model store of this host is empty."
      />
      <Section title="Models of other programs">
        <p className="muted prose">Metalbridge can serve them, but does not manage them.</p>
        <PlainTable
          label="Models of other programs"
          rows={installed}
          keyOf={({ runtime, source }) => `${runtime} ${source}`}
          columns={INSTALLED}
          none="No models of other programs were found."
        />
        {installedLeftOut > 0 && <p className="muted">{`${installedLeftOut} more are not listed.`}</p>}
      </Section>
    </div>
  );
}

const MODELS: readonly PlainColumn<HostModel>[] = [
  { id: "source", header: "Model", cell: ({ source }) => <bdi>{source}</bdi>, isWide: true },
  { id: "state", header: "State", cell: (model) => <ModelMarks model={model} /> },
  { id: "size", header: "Size", cell: ({ sizeBytes }) => formatBytes(sizeBytes), isNumber: true },
  {
    id: "speed",
    header: "Tokens/s",
    cell: ({ tokensPerSecond }) => formatRate(tokensPerSecond),
    isNumber: true,
  },
  { id: "used", header: "Last used", cell: ({ lastUsedAt }) => <Ago at={lastUsedAt} />, isNumber: true },
  {
    id: "verified",
    header: "Verified",
    cell: ({ verifiedAt }) => <Ago at={verifiedAt} />,
    isNumber: true,
  },
];

function ModelMarks({ model: { damaged, inUse, pinned } }: { readonly model: HostModel }) {
  const isPlain = damaged !== true && inUse !== true && pinned !== true;
  return (
    <span className="row">
      {damaged === true && <Tag level="bad">Damaged</Tag>}
      {inUse === true && <Tag level="ok">In use</Tag>}
      {pinned === true && <Tag>Pinned</Tag>}
      {isPlain && <span className="muted">Idle</span>}
    </span>
  );
}

const INSTALLED: readonly PlainColumn<HostInstalled>[] = [
  { id: "source", header: "Model", cell: ({ source }) => <bdi>{source}</bdi>, isWide: true },
  { id: "program", header: "Program", cell: ({ runtime }) => runtime },
  { id: "size", header: "Size", cell: ({ sizeBytes }) => formatBytes(sizeBytes), isNumber: true },
];
