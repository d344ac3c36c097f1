/** The page Usage. */
import { Page } from "../../parts/page.tsx";
import { text } from "../../texts/text.ts";

export function UsagePage() {
  return (
    <Page title={text.pages.usage}>
      <div />
    </Page>
  );
}
