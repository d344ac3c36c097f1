/** The page Node. */
import { Page } from "../../parts/page.tsx";
import { text } from "../../texts/text.ts";

export function NodePage() {
  return (
    <Page title={text.pages.hosts}>
      <div />
    </Page>
  );
}
