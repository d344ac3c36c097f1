/** All services, with the reason where one does not serve. */
import { Plus } from "lucide-react";
import { useMemo } from "react";
import { hrefOfService } from "../../address/href.ts";
import { useNamespace, useSearchParam, useSetSearch } from "../../address/search.ts";
import { useHiddenNamespace } from "../../address/sight.ts";
import { useRight } from "../../api/session.ts";
import { useList } from "../../live/hooks.ts";
import { Button } from "../../parts/button.tsx";
import { Chips } from "../../parts/chips.tsx";
import { Filter } from "../../parts/filter.tsx";
import { Empty, Failure, Skeleton } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { DataTable, namespacedKey } from "../../parts/table.tsx";
import { servicesText } from "../../texts/services.ts";
import { text } from "../../texts/text.ts";
import { SERVICE_COLUMNS } from "./columns.tsx";
import { countLevels, isShown, LEVELS } from "./filter.ts";
import "./services.css";

export function ServicesPage() {
  const services = useList("services");
  const namespace = useNamespace();
  const [words, setWords] = useSearchParam("q");
  const [chosen, setChosen] = useSearchParam("state");
  const levels = useMemo(() => (chosen === "" ? [] : chosen.split(",")), [chosen]);
  const here = useMemo(
    () => services.rows.filter((row) => namespace === "" || row.namespace === namespace),
    [services.rows, namespace],
  );
  const shown = useMemo(() => here.filter((row) => isShown(row, words, levels)), [here, words, levels]);
  const counts = useMemo(() => countLevels(here), [here]);
  const hasNone = services.isSynced && here.length === 0;
  return (
    <Page
      title={text.pages.services}
      subtitle={services.isSynced && !hasNone ? servicesText.ready(counts.ok, here.length) : undefined}
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
              <Filter label={servicesText.filter} words={words} onChange={setWords} />
              <Chips
                label={servicesText.states}
                chips={LEVELS.flatMap((level) =>
                  counts[level] === 0 && !levels.includes(level)
                    ? []
                    : [{ id: level, label: servicesText.levels[level], count: counts[level] }],
                )}
                chosen={levels}
                onChange={(next) => setChosen(next.join(","))}
              />
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
      title={namespace === "" ? servicesText.empty : servicesText.emptyIn(namespace)}
      why={servicesText.emptyWhy}
      command={servicesText.emptyCommand}
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
