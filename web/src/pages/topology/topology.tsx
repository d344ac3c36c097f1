/** The page Topology. */
import { Page } from "../../parts/page.tsx";
import { text } from "../../texts/text.ts";

export function TopologyPage() {
  return (
    <Page title={text.pages.topology}>
      <div />
    </Page>
  );
}
