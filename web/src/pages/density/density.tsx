/** The page Density. */
import { Page } from "../../parts/page.tsx";
import { text } from "../../texts/text.ts";

export function DensityPage() {
  return (
    <Page title={text.pages.density}>
      <div />
    </Page>
  );
}
