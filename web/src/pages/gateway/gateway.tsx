/** The page Gateway. */
import { Page } from "../../parts/page.tsx";
import { text } from "../../texts/text.ts";

export function GatewayPage() {
  return (
    <Page title={text.pages.gateway}>
      <div />
    </Page>
  );
}
