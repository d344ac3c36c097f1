/** How every page of the console looks over many objects: accessible, within the screen at all widths, texts as texts. */
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
import { PAGES } from "./pages.ts";
import { oneSyntheticConsole, whyNoConsole } from "./started-console.ts";

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

async function isInjected(page: Page): Promise<boolean> {
  return page.evaluate(`window.${INJECTED} !== undefined || document.querySelector("img[src=x]") !== null`);
}
