/** All services, with the reason where one does not serve. */
import { Plus } from "lucide-react";
import { useMemo } from "react";
import { hrefOfService } from "../../address/href.ts";
import { useNamespace, useSearchParam, useSetSearch } from "../../address/search.ts";
import { useHiddenNamespace } from "../../address/sight.ts";
import { useRight } from "../../api/session.ts";
import { useList } from "../../live/hooks.ts";
import { Button } from "../../parts/button.tsx";
import { Filter } from "../../parts/filter.tsx";
import { LevelChips, useLevels } from "../../parts/level-chips.tsx";
import { Empty, Failure, Skeleton } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { countReady } from "../../parts/state.tsx";
import { DataTable, namespacedKey } from "../../parts/table.tsx";
import { text } from "../../texts/text.ts";
import { SERVICE_COLUMNS } from "./columns.tsx";
import { isShown } from "./filter.ts";
import "./services.css";

const LEVEL_WORDS = {
  ok: "Ready",
  busy: "In progress",
  warn: "Needs attention",
  bad: "Not serving",
  idle: "At rest",
} as const;

export function ServicesPage() {
  const services = useList("services");
  const namespace = useNamespace();
  const [words, setWords] = useSearchParam("q");
  const [levels] = useLevels();
  const here = useMemo(
    () => services.rows.filter((row) => namespace === "" || row.namespace === namespace),
    [services.rows, namespace],
  );
  const shown = useMemo(() => here.filter((row) => isShown(row, words, levels)), [here, words, levels]);
  const hasNone = services.isSynced && here.length === 0;
  return (
    <Page
      title={text.pages.services}
      subtitle={services.isSynced && !hasNone ? `${countReady(here)} of ${here.length} ready` : undefined}
      isWide
    >
      {services.refusal !== undefined && <Failure error={services.refusal} />}
      {!services.isSynced && services.refusal === undefined && <Skeleton />}
      {hasNone && <NoServices namespace={namespace} />}
      {here.length > 0 && (
        <DataTable
          id="services"
          label={text.pages.services}
          rows={shown}
          keyOf={namespacedKey}
          columns={SERVICE_COLUMNS}
          hrefOf={hrefOfService}
          defaultSort="name"
          toolbar={
            <>
              <Filter label={"Filter by name, model, host"} words={words} onChange={setWords} />
              <LevelChips label="States" rows={here} words={LEVEL_WORDS} />
              <span className="muted small number">{text.table.count(shown.length, here.length)}</span>
            </>
          }
        />
      )}
    </Page>
  );
}

function NoServices({ namespace }: { readonly namespace: string }) {
  const setSearch = useSetSearch();
  const hidden = useHiddenNamespace("inferenceservices");
  const right = useRight({
    verb: "create",
    resource: "inferenceservices",
    namespace: namespace === "" ? "default" : namespace,
  });
  if (hidden !== undefined) return <Failure error={hidden} />;
  return (
    <Empty
      title={namespace === "" ? "No services yet" : `No services in namespace ${namespace}`}
      why="A service serves one model under one address, on as many machines as you want. Choose a model, and see before you deploy it where it fits and how fast it will be. In a terminal:"
      command="metalbridge deploy qwen3:8b"
    >
      <Button
        look="primary"
        icon={<Plus size={14} aria-hidden />}
        right={right}
        onClick={() => setSearch({ deploy: "new" })}
      >
        {text.frame.deploy}
      </Button>
    </Empty>
  );
}
