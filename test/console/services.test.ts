/**
 * The console over a farm, end to end. Services: deploy to the first answer, scale, edits of two people, deletion, rights, logs. Every page
 * opens without a problem; how they look: `pages.system.test.ts`. Sessions that end in the middle of work: what the reader has typed stays,
 * and is sent after the next sign-in.
 * CPU: a browser over a whole farm, and a log of 100,000 lines.
 */
import type { Locator, Page } from "playwright-core";
import { expect, it } from "vitest";
import { type ConsolePage, signIn } from "../bed/console/browser.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { expectAccessible, takePictures } from "./looks.ts";
import { PAGES } from "./pages.ts";
import { oneConsole, whyNoConsole } from "./started-console.ts";

describeUnless(whyNoConsole, "the console over a farm", () => {
  const on = oneConsole({ hosts: ["mac-1"] });
  const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
  const specOf = async (name: string) => (await on().farm.objects.get("default", `isvc/${name}`)).spec;

  it("a model is deployed from the dialog, and answers", async () => {
    await using reader = await on().administrator();
    const { page } = reader;
    await reader.goTo("/services?deploy=new");
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Own source" }).click();
    await dialog.getByLabel("Source", { exact: true }).fill(on().tinyModel);
    await dialog.getByLabel("Name", { exact: true }).fill("Not A Name");
    await button(page, "Deploy").click();
    await dialog
      .getByText(/metadata.name|lowercase|RFC 1123/i)
      .first()
      .waitFor();
    await dialog.getByLabel("Name", { exact: true }).fill("hello");
    await dialog.getByLabel("Context size (tokens)").fill("2048");
    await expectAccessible(page);
    reader.expectProblems(/422|409/);
    await button(page, "Deploy").click();
    await dialog.locator(".first-answer").waitFor();
    expect(await dialog.locator(".first-answer").textContent()).not.toBe("");
    await dialog.getByRole("link", { name: "Open the service" }).click();
    await page.getByRole("heading", { name: "hello", level: 1 }).waitFor();
    await page
      .getByRole("list", { name: /^hello-0/ })
      .getByText("Ready")
      .waitFor();
    expect((await specOf("hello")).contextSize).toBe(2048);
  });

  it("the dialog shows at its field that a name is taken", async () => {
    await on().serve("taken", "mac-1");
    await using reader = await on().administrator();
    const { page } = reader;
    reader.expectProblems(/409/);
    await reader.goTo(`/services?deploy=${encodeURIComponent(on().tinyModel)}`);
    await page.getByRole("dialog").getByLabel("Name", { exact: true }).fill("taken");
    await button(page, "Deploy").click();
    await page.getByText("There is a service taken in namespace default.").first().waitFor();
  });

  it("a service whose context is longer than its model's says so, and is scaled", async () => {
    await on().serve("scaled", "mac-1", { contextSize: 16_384 });
    await using reader = await on().administrator();
    const { page } = reader;
    await reader.goTo("/services/default/scaled");
    await page.getByText("8,192 of 16,384").waitFor();
    await page
      .getByText(/the model was trained for 8192/)
      .first()
      .waitFor();
    await button(page, "Scale").click();
    await page.getByRole("spinbutton", { name: "Replicas" }).fill("2");
    await page.getByText("1 replica more").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Scale" }).click();
    await page.getByText("Scaled to 2 replicas.").waitFor();
    expect((await specOf("scaled")).replicas).toBe(2);
    await page.getByRole("list", { name: /^scaled-1/ }).waitFor();
  });

  it("a log of 100,000 lines is followed and filtered by the server, and the tab stays small", async () => {
    await on().serve("talkative", "mac-1");
    await using reader = await on().signedIn();
    const { page, context } = reader;
    const line = (number: number) =>
      `${JSON.stringify({ line: `${number} ${"x".repeat(120)} <b>bold</b>`, replica: "talkative-0" })}\n`;
    // The server's part has a test of its own; here it is a log that no engine writes in a minute.
    await page.route("**/console/logs?*", (route) => {
      const filter = new URL(route.request().url()).searchParams.get("filter");
      const count = filter === "" ? 110_000 : 1;
      const body = Array.from({ length: count }, (_, index) => line(index)).join("");
      return route.fulfill({ contentType: "application/x-ndjson", body });
    });
    await reader.open("/services/default/talkative?tab=logs");
    await page.getByText("100,000 lines", { exact: true }).waitFor();
    const log = page.getByRole("log");
    await log.getByText(/^109999 x+ <b>bold<\/b>$/).waitFor();
    expect(await log.locator(".log-line").count()).toBeLessThan(200);
    const devtools = await context.newCDPSession(page);
    await devtools.send("HeapProfiler.collectGarbage");
    const { usedSize } = await devtools.send("Runtime.getHeapUsage");
    expect(usedSize).toBeLessThan(150 * 2 ** 20);
    await page.getByRole("searchbox", { name: "Filter the log" }).fill("/bold/");
    await page.getByText("1 lines", { exact: true }).waitFor();
    const saved = page.waitForEvent("download");
    await button(page, "Download the log").click();
    expect((await saved).suggestedFilename()).toBe("talkative.log");
  });

  it("two people edit one service, and neither loses the change", async () => {
    await on().serve("edited", "mac-1");
    await using reader = await on().signedIn();
    const { page } = reader;
    reader.expectProblems(/409|422/);
    await reader.open("/services/default/edited?tab=yaml");
    await button(page, "Edit").click();
    const text = page.getByRole("textbox", { name: "YAML of the service" });
    const mine = (await text.inputValue()).replace("priority: normal", "priority: hgih");
    await text.fill(mine);
    await button(page, "Save").click();
    await page
      .getByText(/spec\.priority: /)
      .first()
      .waitFor();
    await on().farm.objects.patch("default", "isvc/edited", { spec: { replicas: 0 } });
    await text.fill(mine.replace("priority: hgih", "priority: high"));
    await button(page, "Save").click();
    await page.getByText("spec.replicas: 1 → 0").waitFor();
    await button(page, "Reload and keep my edit").click();
    await button(page, "Save").click();
    await page.getByText("Saved", { exact: true }).waitFor();
    expect(await specOf("edited")).toMatchObject({ priority: "high", replicas: 0 });
  });

  it("a service that is deleted while its page is open is said to be gone", async () => {
    await on().serve("short-lived", "mac-1");
    await using reader = await on().administrator();
    const { page } = reader;
    await reader.goTo("/services/default/short-lived");
    await button(page, "More actions").click();
    await page.getByRole("menuitem", { name: "Delete", exact: true }).click();
    await page.getByText("1 replica drains for at most 5 s, then stops.").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByRole("heading", { name: "short-lived was deleted" }).waitFor();
  });

  it("who may only look sees the actions disabled, with the right that is missing", async () => {
    await on().serve("looked-at", "mac-1");
    const token = await on().token("looker", { clusterRole: "metalbridge-looker" });
    await on().apply({
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRole",
      metadata: { name: "metalbridge-looker" },
      rules: [
        { apiGroups: ["metalbridge.dev"], resources: ["*"], verbs: ["get", "list", "watch"] },
        { apiGroups: [""], resources: ["events", "pods"], verbs: ["get", "list", "watch"] },
      ],
    });
    await using reader = await on().signedIn({ token });
    const { page } = reader;
    await reader.open("/services/default/looked-at");
    const scale = button(page, "Scale")
      .or(page.getByRole("button", { name: /^Scale/ }))
      .first();
    await expect.poll(() => scale.getAttribute("aria-disabled")).toBe("true");
    await scale.hover();
    await page.getByText("You may not patch inferenceservices in namespace default").first().waitFor();
    await button(page, "More actions").click();
    const remove = page.getByRole("menuitem", { name: /^Delete/ });
    expect(await remove.getAttribute("aria-disabled")).toBe("true");
    expect(await remove.textContent()).toContain("You may not delete inferenceservices");
  });

  it("pages open one after the other, and the stream is live", async () => {
    await on().serve("chat", "mac-1");
    await using reader = await on().administrator();
    const details = ["/services/default/chat", "/models/default/chat", "/hosts/mac-1"];
    for (const path of [...PAGES, ...details]) {
      await reader.open(path);
      await reader.page.locator(".link-live").waitFor();
      expect(reader.problems(), path).toEqual([]);
    }
  });

  it("pages ask for a token before anything is shown", async () => {
    await using stranger = await on().signedIn({ token: "" });
    stranger.expectProblems(/401/);
    await stranger.page.goto(`${on().url}/console/hosts`);
    await stranger.page.getByRole("dialog", { name: "Sign in" }).waitFor();
    await expectAccessible(stranger.page);
    await takePictures(stranger.page, "sign-in");
  });

  it("a session has expired: an edit of YAML stays, and is saved after the reader has signed in again", async () => {
    await on().serve("expired", "mac-1");
    const token = await on().token("ann");
    await using reader = await on().signedIn({ token });
    reader.expectProblems(/status of 401/);
    const { page, context } = reader;
    const text = await edit(reader, "expired");
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

  it("a session is revoked: the text of the playground stays, and the page continues after a sign-in in another tab", async () => {
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

  it("a session is followed by that of another reader, who sees nothing that the first one has typed", async () => {
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
