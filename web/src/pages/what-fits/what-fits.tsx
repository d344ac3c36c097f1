/** The page What fits: which models fit which machines, and where one would go. */
import { useSearchParam, useSetSearch } from "../../address/search.ts";
import { Page } from "../../parts/page.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { text } from "../../texts/text.ts";
import { CatalogTab } from "./catalog-tab.tsx";
import { NodesTab } from "./nodes-tab.tsx";
import { QueryTab } from "./query-tab.tsx";
import "./what-fits.css";

export function WhatFitsPage() {
  const [tab] = useSearchParam("tab", "nodes");
  const setSearch = useSetSearch();
  return (
    <Page
      title={text.pages.whatFits}
      subtitle="Which models fit which machines, and how well: 0 to 100, for 8,192 tokens of context."
      isWide
    >
      <Tabs
        value={tab}
        onChange={(next) => setSearch({ tab: next, q: undefined, sort: undefined })}
        tabs={[
          { id: "nodes", label: "Nodes", content: () => <NodesTab /> },
          { id: "catalog", label: "Model catalog", content: () => <CatalogTab /> },
          { id: "query", label: "Query", content: () => <QueryTab /> },
        ]}
      />
    </Page>
  );
}
