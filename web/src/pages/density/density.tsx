/** The page Density: which models fit which machines. */
import { useSearchParam, useSetSearch } from "../../address/search.ts";
import { Page } from "../../parts/page.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { densityText } from "../../texts/density.ts";
import { text } from "../../texts/text.ts";
import { CatalogTab } from "./catalog-tab.tsx";
import { NodesTab } from "./nodes-tab.tsx";
import { QueryTab } from "./query-tab.tsx";
import "./density.css";

export function DensityPage() {
  const [tab] = useSearchParam("tab", "nodes");
  const setSearch = useSetSearch();
  const words = densityText.tabs;
  return (
    <Page title={text.pages.density} subtitle={densityText.why} isWide>
      <Tabs
        value={tab}
        onChange={(next) => setSearch({ tab: next, q: undefined, sort: undefined })}
        tabs={[
          { id: "nodes", label: words.nodes, content: () => <NodesTab /> },
          { id: "catalog", label: words.catalog, content: () => <CatalogTab /> },
          { id: "query", label: words.query, content: () => <QueryTab /> },
        ]}
      />
    </Page>
  );
}
