/** The page Services. */
import { Page } from "../../parts/page.tsx";
import { text } from "../../texts/text.ts";

export function ServicesPage() {
  return (
    <Page title={text.pages.services}>
      <div />
    </Page>
  );
}
