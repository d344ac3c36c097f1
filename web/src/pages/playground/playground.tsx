/** The page Playground. */
import { Page } from "../../parts/page.tsx";
import { text } from "../../texts/text.ts";

export function PlaygroundPage() {
  return (
    <Page title={text.pages.playground}>
      <div />
    </Page>
  );
}
