/** The page Model. */
import { Page } from "../../parts/page.tsx";
import { text } from "../../texts/text.ts";

export function ModelPage() {
  return (
    <Page title={text.pages.models}>
      <div />
    </Page>
  );
}
