/** The page Overview. */
import { Page } from "../../parts/page.tsx";
import { text } from "../../texts/text.ts";

export function OverviewPage() {
  return (
    <Page title={text.pages.overview}>
      <div />
    </Page>
  );
}
