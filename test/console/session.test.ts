/**
 * A session that ends in the middle of work: what the reader has typed stays, and is sent after the next sign-in.
 * CPU: a browser over a whole farm, in three sessions.
 */
import type { Locator } from "playwright-core";
import { expect, it } from "vitest";
import { type ConsolePage, signIn } from "../bed/console/browser.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { oneConsole, whyNoConsole } from "./started-console.ts";

describeUnless(whyNoConsole, "a session that ends", () => {
  const on = oneConsole({ hosts: ["mac-1"] });

  it("has expired: an edit of YAML stays, and is saved after the reader has signed in again", async () => {
    await on().serve("edited", "mac-1");
    const token = await on().token("ann");
    await using reader = await on().signedIn({ token });
    reader.expectProblems(/status of 401/);
    const { page, context } = reader;
    const text = await edit(reader, "edited");
    // Browsers remove the cookie with the expiry of its token.
    await context.clearCookies();
    const save = page.getByRole("button", { name: "Save", exact: true });
    await save.click();
    const dialog = page.getByRole("dialog", { name: "Sign in" });
    await dialog.getByText("this page stays as it is").waitFor();
    await dialog.getByLabel("Token of a Kubernetes user or ServiceAccount").fill(token);
    await dialog.getByRole("button", { name: "Sign in", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    expect(await text.inputValue()).toContain("priority: high");
    await save.click();
    await page.getByText("Saved", { exact: true }).waitFor();
  });

  it("is revoked: the text of the playground stays, and the page continues after a sign-in in another tab", async () => {
    await on().serve("talks", "mac-1");
    await using reader = await on().signedIn({ token: await on().token("bob") });
    reader.expectProblems(/status of 401/);
    const { page, context } = reader;
    await reader.open("/playground");
    const message = page.getByRole("textbox", { name: "Message" });
    await message.fill("A question that took long to write");
    await on().farm.objects.remove("default", "serviceaccount/bob");
    const token = await on().token("bob");
    const dialog = page.getByRole("dialog", { name: "Sign in" });
    // The API server and the console accept a revoked token for some seconds.
    await dialog.waitFor();
    await signIn(context, on().url, token);
    // As when the reader comes back to the tab.
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))");
    await dialog.waitFor({ state: "detached" });
    await page.locator(".link-live").waitFor();
    expect(await message.inputValue()).toBe("A question that took long to write");
  });

  it("is followed by that of another reader, who sees nothing that the first one has typed", async () => {
    await on().serve("left", "mac-1");
    await using reader = await on().signedIn({ token: await on().token("carol") });
    reader.expectProblems(/status of 401/);
    const { page, context } = reader;
    await edit(reader, "left");
    await context.clearCookies();
    await page.getByRole("button", { name: "Save", exact: true }).click();
    const dialog = page.getByRole("dialog", { name: "Sign in" });
    await dialog.getByLabel("Token of a Kubernetes user or ServiceAccount").fill(await on().token("dave"));
    const loaded = page.waitForEvent("load");
    await dialog.getByRole("button", { name: "Sign in", exact: true }).click();
    await loaded;
    await page.getByRole("button", { name: "Edit", exact: true }).waitFor();
    expect(await page.locator("main").textContent()).not.toContain("priority: high");
  });
});

/** The field with YAML that is not saved. */
async function edit({ page, open }: ConsolePage, service: string): Promise<Locator> {
  await open(`/services/default/${service}?tab=yaml`);
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  const text = page.getByRole("textbox", { name: "YAML of the service" });
  await text.fill((await text.inputValue()).replace("priority: normal", "priority: high"));
  return text;
}
