/** What every page of the console owes its readers: accessible, nothing wider than the screen; and pictures of it. */
import { mkdir } from "node:fs/promises";
import path from "node:path";
import axe from "axe-core";
import type { Page } from "playwright-core";
import { expect } from "vitest";

export const WIDTHS = [1440, 1024, 390] as const;
export const THEMES = ["light", "dark"] as const;

const WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
/** Frames of other origins, such as those in which code of answers runs, are checked too. */
const ANY_FRAME = 'axe.configure({ allowedOrigins: ["<unsafe_all_origins>"] })';
/** A fault of a row is a fault of every row. */
const MAX_NODES = 5;

/** The rules that another theme can break: all others are about elements, which are the same in both. */
export const COLOR_RULES = ["color-contrast", "link-in-text-block"];

/** No violation that axe finds by these rules, in the page as it is now. */
export async function expectAccessible(page: Page, rules: readonly string[] = WCAG): Promise<void> {
  for (const frame of page.frames())
    await frame.evaluate(`window.axe ?? (() => { ${axe.source}; ${ANY_FRAME} })()`);
  const { violations } = await page.evaluate<axe.AxeResults>(
    `axe.run({ runOnly: ${JSON.stringify(rules)}, resultTypes: ["violations"] })`,
  );
  const found = violations.map(({ id, help, nodes }) => ({
    id,
    help,
    count: nodes.length,
    nodes: nodes
      .slice(0, MAX_NODES)
      .map(({ target, failureSummary }) => `${target.join(" ")}: ${failureSummary}`),
  }));
  expect(found).toEqual([]);
}

/** Nothing is cut at the right: the page never scrolls sideways, and the columns of a table fit into it. */
export async function expectNoOverflow(page: Page): Promise<void> {
  const wide = await page.evaluate<readonly string[]>(`(() => {
    const root = document.documentElement;
    const content = document.getElementById("content");
    const isWide = (node) => node !== null && node.scrollWidth > node.clientWidth + 1;
    const isScrolled = (node) => {
      for (let one = node.parentElement; one && one !== content; one = one.parentElement)
        if (getComputedStyle(one).overflowX !== "visible") return true;
      return false;
    };
    const rows = [...document.querySelectorAll(".table-row, .table-head > div")].filter(isWide);
    const edge = Math.min(...[root, content].map((box) => (box ? box.getBoundingClientRect().left + box.clientWidth : Infinity)));
    const beyond = isWide(root) || isWide(content)
      ? [...(content ?? root).querySelectorAll("*")].filter((node) => node.getBoundingClientRect().right > edge + 1 && !isScrolled(node))
      : [];
    return [...rows.slice(0, 1), ...beyond].map((node) => node.outerHTML.slice(0, 160));
  })()`);
  expect(wide, `wider than the screen at ${page.viewportSize()?.width}`).toEqual([]);
}

/** Calls `look` for the page at three widths; ends at the size of the start. */
export async function atAllWidths(page: Page, look: (width: number) => Promise<void>): Promise<void> {
  const before = page.viewportSize() ?? { width: WIDTHS[0], height: 900 };
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: width < 500 ? 844 : 900 });
    await settled(page);
    await look(width);
  }
  await page.setViewportSize(before);
}

/** The page follows the system's theme. */
export async function setTheme(page: Page, theme: (typeof THEMES)[number]): Promise<void> {
  await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
  await page.locator(`html[data-theme="${theme}"]`).waitFor({ state: "attached" });
  await settled(page);
}

/** Resolves after the layout, and after transitions of colors. */
async function settled(page: Page): Promise<void> {
  await page.evaluate(`(async () => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    await frame();
    await frame();
    const transitions = document.getAnimations().filter((one) => one instanceof CSSTransition);
    await Promise.allSettled(transitions.map(({ finished }) => finished));
  })()`);
}

/** Writes NAME-WIDTH-THEME.png of what the page shows now in all looks, if CONSOLE_PICTURES names a folder. */
export async function takePictures(page: Page, name: string): Promise<void> {
  const { CONSOLE_PICTURES: folder } = process.env;
  if (folder === undefined) return;
  await mkdir(folder, { recursive: true });
  await atAllWidths(page, async (width) => {
    for (const theme of THEMES) {
      await setTheme(page, theme);
      const file = path.join(folder, `${name}-${width}-${theme}.png`);
      await page.screenshot({ path: file, animations: "disabled" });
    }
    await setTheme(page, THEMES[0]);
  });
}
