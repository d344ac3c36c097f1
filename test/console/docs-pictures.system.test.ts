/** The pictures of docs/console.md, over a farm whose texts are plain. UPDATE_SCREENSHOTS=1 writes them. */
import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import type { Page } from "playwright-core";
import sharp from "sharp";
import { it } from "vitest";
import { packageRoot } from "../../local/package-root.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { setTheme, THEMES } from "./looks.ts";
import { oneSyntheticConsole, whyNoConsole } from "./started-console.ts";

const FOLDER = path.join(packageRoot(), "docs", "images", "console");
const SIZE = { width: 1280, height: 800 };
const PICTURES: Readonly<Record<string, readonly [at: string, act?: (page: Page) => Promise<void>]>> = {
  overview: ["/"],
  deploy: ["/?deploy=new", chooseModel],
  services: ["/services"],
  service: ["/services/research/contracts?tab=placement"],
  models: ["/models"],
  hosts: ["/hosts"],
  host: ["/hosts/mac-04"],
  "what-fits": ["/fits?tab=query&model=Qwen%2FQwen3-32B&without=mac-02"],
  topology: ["/topology"],
  playground: ["/playground?service=default%2Fassistant", ask],
  gateway: ["/gateway?tab=keys"],
  usage: ["/usage", (page) => page.locator(".uplot canvas").first().waitFor()],
  settings: ["/settings"],
};
const why = process.env.UPDATE_SCREENSHOTS === "1" ? whyNoConsole : "UPDATE_SCREENSHOTS=1 writes them";

describeUnless(why, "pictures of the documentation", () => {
  const on = oneSyntheticConsole({ hosts: 12, services: 24, nodes: 2, isPlain: true, hasClients: true });

  it.each(Object.entries(PICTURES))("%s", async (name, [at, act]) => {
    await using reader = await on().signedIn({ width: SIZE.width });
    await reader.page.setViewportSize(SIZE);
    await reader.open(at);
    await reader.page.locator(".link-live").waitFor();
    await reader.page
      .locator("main :is(.attention, .table-row, .card, .conversation, td, .topo-card)")
      .first()
      .waitFor();
    await act?.(reader.page);
    await mkdir(FOLDER, { recursive: true });
    for (const theme of THEMES) {
      await setTheme(reader.page, theme);
      const picture = await reader.page.screenshot({ animations: "disabled" });
      // Pages have few colors, and git keeps every version.
      const small = await sharp(picture).png({ palette: true, effort: 10 }).toBuffer();
      await writeFile(path.join(FOLDER, `${name}-${theme}.png`), small);
    }
  });
});

async function chooseModel(page: Page): Promise<void> {
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("searchbox").fill("qwen3 32b");
  await dialog.getByRole("button", { name: /^Qwen\/Qwen3-32B / }).click();
  await dialog.getByText("Recommended").waitFor();
}

async function ask(page: Page): Promise<void> {
  await page
    .getByRole("textbox", { name: "Message" })
    .fill("How do I take a Mac out of the farm for a repair?");
  await page.getByRole("button", { name: "Send" }).click();
  await page.locator(".answer-actions").waitFor();
}
