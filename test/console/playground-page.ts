/** The chat of the playground, as a reader uses it. */
import type { Locator } from "playwright-core";
import type { ConsolePage } from "../bed/console/browser.ts";

export function button({ page }: ConsolePage, name: string): Locator {
  return page.getByRole("main").getByRole("button", { name, exact: true });
}

export function answers({ page }: ConsolePage): Locator {
  return page.getByRole("article");
}

export async function ask({ page }: ConsolePage, text: string): Promise<void> {
  await page.getByLabel("Message").fill(text);
  // Until the gateway has listed its models, Enter sends nothing.
  await page.locator("button:enabled", { hasText: /^Send$/ }).waitFor();
  await page.keyboard.press("Enter");
}
