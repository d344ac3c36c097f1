/** The page Service. */
import { Page } from "../../parts/page.tsx";
import { text } from "../../texts/text.ts";

export function ServicePage() {
  return (
    <Page title={text.pages.services}>
      <div />
    </Page>
  );
}
