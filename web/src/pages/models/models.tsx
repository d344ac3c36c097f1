/** The page Models. */
import { Page } from "../../parts/page.tsx";
import { text } from "../../texts/text.ts";

export function ModelsPage() {
  return (
    <Page title={text.pages.models}>
      <div />
    </Page>
  );
}
