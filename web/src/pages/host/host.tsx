/** The page Host. */
import { Page } from "../../parts/page.tsx";
import { text } from "../../texts/text.ts";

export function HostPage() {
  return (
    <Page title={text.pages.hosts}>
      <div />
    </Page>
  );
}
