/**
 * Every page of the console: opens, has no problem, is accessible, fits the screen, and shows texts as texts.
 * CPU: a browser lays out fifteen pages at three widths, and axe checks each three times.
 */
import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { INJECTED } from "../bed/console/awkward-texts.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import {
  atAllWidths,
  COLOR_RULES,
  expectAccessible,
  expectNoOverflow,
  setTheme,
  takePictures,
  WIDTHS,
} from "./looks.ts";
import { oneConsole, oneSyntheticConsole, whyNoConsole } from "./started-console.ts";

const PAGES = [
  ...["/", "/services", "/models", "/hosts", "/density", "/topology", "/simulate", "/playground"],
  ...["/gateway", "/usage", "/settings"],
];

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

describeUnless(whyNoConsole, "pages over twenty hosts", () => {
  const on = oneSyntheticConsole({ hosts: 20, services: 32, nodes: 2 });
  const details = () => {
    const [, waiting] = on().farm.services;
    return [
      `/services/${waiting?.namespace}/${waiting?.name}`,
      "/models/default/llama-3.1-70b",
      `/hosts/${on().farm.hosts[3]}`,
      "/nodes/gpu-001",
    ];
  };

  it.each([...PAGES, "a service", "a model", "a host", "a node"])(
    "%s is accessible and fits",
    async (name) => {
      await using reader = await on().signedIn();
      const path = name.startsWith("/")
        ? name
        : details()[["a service", "a model", "a host", "a node"].indexOf(name)];
      await reader.open(path ?? "/");
      await atAllWidths(reader.page, async (width) => {
        await expectNoOverflow(reader.page);
        // Between the widest and the narrowest, the same elements are only placed otherwise.
        if (width !== WIDTHS[1]) await expectAccessible(reader.page);
      });
      await setTheme(reader.page, "dark");
      await expectAccessible(reader.page, COLOR_RULES);
      await setTheme(reader.page, "light");
      expect(await isInjected(reader.page)).toBe(false);
      await takePictures(reader.page, name === "/" ? "overview" : name.replace(/^\/|^an? /, ""));
    },
  );
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

async function isInjected(page: Page): Promise<boolean> {
  return page.evaluate(`window.${INJECTED} !== undefined || document.querySelector("img[src=x]") !== null`);
}
