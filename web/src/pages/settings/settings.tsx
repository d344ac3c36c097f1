/** The page Settings. */
import { Page } from "../../parts/page.tsx";
import { text } from "../../texts/text.ts";

export function SettingsPage() {
  return (
    <Page title={text.pages.settings}>
      <div />
    </Page>
  );
}
