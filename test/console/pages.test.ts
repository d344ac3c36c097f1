/**
 * Every page of the console opens without a problem. How they look: `pages.system.test.ts`.
 * CPU: a browser loads fourteen pages over a whole farm.
 */
import { expect, it } from "vitest";
import { describeUnless } from "../bed/describe-unless.ts";
import { expectAccessible, takePictures } from "./looks.ts";
import { PAGES } from "./pages.ts";
import { oneConsole, oneSyntheticConsole, whyNoConsole } from "./started-console.ts";

describeUnless(whyNoConsole, "pages over a farm", () => {
  const on = oneConsole({ hosts: ["mac-1"] });

  it("open one after the other, and the stream is live", async () => {
    await on().serve("chat", "mac-1");
    await using reader = await on().signedIn();
    const details = ["/services/default/chat", "/models/default/chat", "/hosts/mac-1"];
    for (const path of [...PAGES, ...details]) {
      await reader.open(path);
      await reader.page.locator(".link-live").waitFor();
      expect(reader.problems(), path).toEqual([]);
    }
  });

  it("ask for a token before anything is shown", async () => {
    await using stranger = await on().signedIn({ token: "" });
    stranger.expectProblems(/401/);
    await stranger.page.goto(`${on().url}/console/hosts`);
    await stranger.page.getByRole("dialog", { name: "Sign in" }).waitFor();
    await expectAccessible(stranger.page);
    await takePictures(stranger.page, "sign-in");
  });
});

describeUnless(whyNoConsole, "the map of twenty hosts", () => {
  const on = oneSyntheticConsole({ hosts: 20, services: 20 });

  it("isolates the path of a clicked machine, and Escape shows everything again", async () => {
    await using reader = await on().signedIn();
    const { page } = reader;
    await reader.open("/topology");
    const machine = page.getByRole("button", { name: on().farm.hosts[0] ?? "", exact: true });
    await machine.click();
    expect(await machine.getAttribute("aria-pressed")).toBe("true");
    await expect.poll(() => page.locator(".topo-edge-on").count()).toBeGreaterThan(1);
    expect(await page.locator(".topo-off").count()).toBeGreaterThan(20);
    await page.keyboard.press("Escape");
    await expect.poll(() => page.locator(".topo-off").count()).toBe(0);
    expect(await machine.getAttribute("aria-pressed")).toBe("false");
  });
});
