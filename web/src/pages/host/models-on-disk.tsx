/** Models in a host's store, and those of other programs on it. */
import type { HostInstalled, HostModel, HostStatus } from "../../../../src/api/host.ts";
import { formatBytes, formatRate } from "../../parts/format.ts";
import { Section } from "../../parts/page.tsx";
import { type PlainColumn, PlainTable } from "../../parts/plain-table.tsx";
import { Tag } from "../../parts/state.tsx";
import { Ago } from "../../parts/time.tsx";
import { hostText } from "../../texts/host.ts";

const words = hostText.models;

export function ModelsOnDisk({ status }: { readonly status: HostStatus | undefined }) {
  const { models = [], installed = [], installedLeftOut = 0 } = status ?? {};
  return (
    <div className="detail-tabs">
      <PlainTable
        label={hostText.tabs.models}
        rows={models}
        keyOf={({ source }) => source}
        columns={MODELS}
        none={words.none}
      />
      <Section title={words.installed}>
        <p className="muted prose">{words.installedWhy}</p>
        <PlainTable
          label={words.installed}
          rows={installed}
          keyOf={({ runtime, source }) => `${runtime} ${source}`}
          columns={INSTALLED}
          none={words.noneInstalled}
        />
        {installedLeftOut > 0 && <p className="muted">{words.leftOut(installedLeftOut)}</p>}
      </Section>
    </div>
  );
}

const MODELS: readonly PlainColumn<HostModel>[] = [
  { id: "source", header: words.source, cell: ({ source }) => <bdi>{source}</bdi>, isWide: true },
  { id: "state", header: words.state, cell: (model) => <ModelMarks model={model} /> },
  { id: "size", header: words.size, cell: ({ sizeBytes }) => formatBytes(sizeBytes), isNumber: true },
  {
    id: "speed",
    header: words.speed,
    cell: ({ tokensPerSecond }) => formatRate(tokensPerSecond),
    isNumber: true,
  },
  { id: "used", header: words.used, cell: ({ lastUsedAt }) => <Ago at={lastUsedAt} />, isNumber: true },
  {
    id: "verified",
    header: words.verified,
    cell: ({ verifiedAt }) => <Ago at={verifiedAt} />,
    isNumber: true,
  },
];

function ModelMarks({ model: { damaged, inUse, pinned } }: { readonly model: HostModel }) {
  const isPlain = damaged !== true && inUse !== true && pinned !== true;
  return (
    <span className="row">
      {damaged === true && <Tag level="bad">{words.damaged}</Tag>}
      {inUse === true && <Tag level="ok">{words.inUse}</Tag>}
      {pinned === true && <Tag>{words.pinned}</Tag>}
      {isPlain && <span className="muted">{words.idle}</span>}
    </span>
  );
}

const INSTALLED: readonly PlainColumn<HostInstalled>[] = [
  { id: "source", header: words.source, cell: ({ source }) => <bdi>{source}</bdi>, isWide: true },
  { id: "program", header: words.program, cell: ({ runtime }) => runtime },
  { id: "size", header: words.size, cell: ({ sizeBytes }) => formatBytes(sizeBytes), isNumber: true },
];
