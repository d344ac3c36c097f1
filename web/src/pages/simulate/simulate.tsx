/** The page Simulate. */
import { Page } from "../../parts/page.tsx";
import { text } from "../../texts/text.ts";

export function SimulatePage() {
  return (
    <Page title={text.pages.simulate}>
      <div />
    </Page>
  );
}
