/**
 * The catalog in the console, end to end: a model that the reader chooses by name is fetched from the hub, and answers.
 * CPU: a browser over a whole farm, and models that are fetched.
 */
import { expect, it } from "vitest";
import { describeUnless } from "../bed/describe-unless.ts";
import { expectAccessible, takePictures } from "./looks.ts";
import { oneConsole, whyNoConsole } from "./started-console.ts";

const MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct";
const LEVELS = ["Perfect", "Good", "Marginal"];
/** The repository that the catalog names for it. */
const REPO = "bartowski/SmolLM2-135M-Instruct-GGUF";

describeUnless(whyNoConsole, "the catalog in the console", () => {
  const on = oneConsole({
    hosts: ["mac-1"],
    hub: { [REPO]: ["SmolLM2-135M-Instruct-Q4_K_M.gguf", "SmolLM2-135M-Instruct-Q8_0.gguf"] },
  });

  it("a model of the catalog is found, deployed from the hub, and answers", async () => {
    await using reader = await on().signedIn();
    const { page } = reader;
    await reader.open("/");
    await page.getByRole("button", { name: "Deploy a model" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("searchbox").fill("smollm2 135m");
    await dialog.getByRole("button", { name: new RegExp(MODEL) }).click();
    await dialog.getByText("mac-1").first().waitFor();
    await expectAccessible(page);
    await dialog.getByRole("button", { name: "Deploy", exact: true }).click();
    await dialog.locator(".first-answer").waitFor();
    expect(await dialog.locator(".first-answer").textContent()).not.toBe("");
    const name = "smollm2-135m-instruct";
    const { objects } = on().farm;
    expect(await objects.get("default", `models.metalbridge.dev/${name}`)).toMatchObject({
      spec: { source: `hf://${REPO}`, quantization: "Q4_K_M" },
    });
    expect(await objects.get("default", `isvc/${name}`)).toMatchObject({ status: { phase: "Ready" } });
  });

  it("the page of a host lists the models that fit it now, best level first, and deploys one", async () => {
    await using reader = await on().signedIn();
    const { page } = reader;
    await reader.open("/hosts/mac-1?tab=fits&q=smollm2");
    const table = page.getByRole("table", { name: "Models that fit" });
    await table.getByText(MODEL).waitFor();
    const levels = await table.locator(".state").allTextContents();
    const scores = await table.locator(".score").allTextContents();
    const ranks = levels.map((level, at) => 100 * LEVELS.indexOf(level) - Number(scores[at]));
    expect(ranks.length).toBeGreaterThan(1);
    expect(ranks).toEqual(ranks.toSorted((one, other) => one - other));
    const row = table.getByRole("row").filter({ hasText: MODEL });
    expect(await row.textContent()).toMatch(/[\d.]+ [\d.]+–[\d.]+.*[\d.]+ \/ [\d.]+ GiB.*Q\d/);
    await expectAccessible(page);
    await takePictures(page, "host-fits");
    await row.getByRole("button", { name: `Deploy ${MODEL}` }).click();
    await page.getByRole("dialog").locator(".chosen-model").getByText(MODEL).waitFor();
  });

  it("the model catalog says what each model needs, and what would make it fit", async () => {
    await using reader = await on().signedIn();
    const { page } = reader;
    await reader.open("/fits?tab=catalog&sort=-memory");
    const first = page.getByRole("table", { name: "Model catalog" }).getByRole("row").nth(1);
    expect(await first.textContent()).toMatch(
      /Too tight.*[\d.]+ (GiB|TiB).*mac-1.*[\d.]+ (GiB|TiB) short, even with \w+, the smallest quantization/,
    );
    await expectAccessible(page);
    await takePictures(page, "fits-catalog");
    await page
      .getByRole("radio", { name: "Fits" })
      .or(page.getByRole("button", { name: "Fits" }))
      .first()
      .click();
    await page.getByText("the smallest quantization").first().waitFor({ state: "detached" });
  });
});
