/**
 * The pages of hosts, of what fits them, and the catalog over a farm: every action, and the rights that it needs.
 * CPU: a browser over a whole farm, and models that are fetched.
 */
import { afterEach, expect, it } from "vitest";
import type { ConsolePage } from "../bed/console/browser.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { model, serviceAnywhere } from "../bed/manifests.ts";
import { expectAccessible, takePictures } from "./looks.ts";
import { oneConsole, whyNoConsole } from "./started-console.ts";

const MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct";
const LEVELS = ["Perfect", "Good", "Marginal"];
/** The repository that the catalog names for it. */
const REPO = "bartowski/SmolLM2-135M-Instruct-GGUF";
const RBAC = "rbac.authorization.k8s.io";
const LOOKER = {
  apiVersion: `${RBAC}/v1`,
  kind: "ClusterRole",
  metadata: { name: "console-looker" },
  rules: [
    { apiGroups: ["metalbridge.dev"], resources: ["*"], verbs: ["get", "list", "watch"] },
    { apiGroups: [""], resources: ["events"], verbs: ["get", "list"] },
  ],
};

describeUnless(whyNoConsole, "the pages of hosts and of what fits", () => {
  const on = oneConsole({
    hosts: ["mac-1"],
    hub: { [REPO]: ["SmolLM2-135M-Instruct-Q4_K_M.gguf", "SmolLM2-135M-Instruct-Q8_0.gguf"] },
  });
  const spec = async () => (await on().farm.objects.get("", "mbhost/mac-1")).spec;
  afterEach(async () => {
    const { objects } = on().farm;
    await objects.patch("", "mbhost/mac-1", { spec: { unschedulable: false, drain: false } });
    await objects.remove("default", "isvc", "mdl");
  });

  const button = ({ page }: ConsolePage, name: string) =>
    page.getByRole("main").getByRole("button", { name, exact: true });
  const main = ({ page }: ConsolePage) => page.getByRole("main");

  it("cordon and uncordon a host, as the API server confirms", async () => {
    await using reader = await on().administrator();
    await reader.goTo("/hosts/mac-1");
    await button(reader, "Cordon").click();
    const dialog = reader.page.getByRole("dialog", { name: "Cordon mac-1?" });
    await dialog.getByText(/No new ones start here/).waitFor();
    await dialog.getByRole("button", { name: "Cordon" }).click();
    await main(reader).getByText("Cordoned", { exact: true }).first().waitFor();
    await main(reader)
      .getByText(/No new ones start here/)
      .waitFor();
    expect((await spec()).unschedulable).toBe(true);
    await button(reader, "Uncordon").click();
    await button(reader, "Cordon").waitFor();
    await main(reader).getByText("Uncordoned: new replicas can start here.").waitFor();
    expect((await spec()).unschedulable).toBe(false);
    await main(reader).getByText("Ready", { exact: true }).first().waitFor();
  });

  it("name the cordon that a service waits for, and end it from the overview", async () => {
    await on().farm.objects.patch("", "mbhost/mac-1", { spec: { unschedulable: true } });
    await on().apply(
      model("kept-off", on().tinyModel),
      serviceAnywhere("kept-off", { placement: { hosts: ["mac-1"] }, contextSize: 4096 }),
    );
    await on().untilPhase("kept-off", "WaitingForCapacity");
    await using reader = await on().administrator();
    await reader.goTo("/hosts/mac-1");
    await main(reader).getByRole("link", { name: "default/kept-off" }).waitFor();
    await reader.goTo("/");
    const item = main(reader).getByRole("article").filter({ hasText: "default/kept-off" });
    await item.getByText("Host mac-1 is cordoned").waitFor();
    await expectAccessible(reader.page);
    await item.getByRole("button", { name: "Uncordon mac-1" }).click();
    await item.waitFor({ state: "detached" });
    await on().untilPhase("kept-off", "Ready");
    expect((await spec()).unschedulable).toBe(false);
  });

  it("say what a drain does, what it waits for, and cancel it", async () => {
    await on().serve("chat", "mac-1");
    await using reader = await on().administrator();
    await reader.goTo("/hosts/mac-1");
    await main(reader).getByRole("link", { name: "default/chat" }).first().waitFor();
    await button(reader, "Drain").click();
    const dialog = reader.page.getByRole("dialog", { name: "Drain mac-1?" });
    await dialog.getByText("1 replica moves to another host").waitFor();
    await dialog.getByText("drains for at most 5 s").waitFor();
    await expectAccessible(reader.page);
    await dialog.getByRole("button", { name: "Drain" }).click();
    // No other host has room for it.
    await main(reader).getByText("DrainBlocked", { exact: true }).first().waitFor();
    await main(reader).getByText("Ready; runs until another replica is Ready elsewhere").waitFor();
    expect((await spec()).drain).toBe(true);
    await button(reader, "Uncordon").click();
    await button(reader, "Drain").waitFor();
    expect((await spec()).drain).toBe(false);
  });

  it("disable what the reader has no right to, and say why", async () => {
    await on().apply(LOOKER);
    const token = await on().token("looker", { clusterRole: "console-looker" });
    await using reader = await on().signedIn({ token });
    await reader.open("/hosts/mac-1");
    for (const name of ["Cordon", "Drain"]) {
      const refused = main(reader).getByRole("button", { name: new RegExp(`^${name}`) });
      await refused.and(reader.page.locator("[aria-disabled=true]")).waitFor();
      await expect.poll(() => refused.textContent()).toContain("You may not patch hosts");
      await refused.click({ force: true });
    }
    expect((await spec()).drain).toBe(false);
    await reader.goTo("/settings");
    await main(reader).getByText("What you may do").waitFor();
    await expect
      .poll(() =>
        main(reader)
          .getByRole("row", { name: /^Hosts/ })
          .textContent(),
      )
      .toMatch(/Yes.*No.*No.*No/);
  });

  it("rank the machines for a model as its name is typed, and suggest names", async () => {
    await using reader = await on().administrator();
    await reader.goTo("/fits?tab=query");
    const field = main(reader).getByRole("searchbox");
    await field.fill("Qwen2.5-7B");
    const row = main(reader)
      .getByRole("row", { name: /mac-1.*Qwen2.5-7B-Instruct/ })
      .first();
    await row.waitFor();
    expect(await row.textContent()).toMatch(/Perfect|Good|Marginal|Too tight/);
    await field.fill("Qwen2.5-7C");
    await main(reader).getByText("The catalog has no model named Qwen2.5-7C.").waitFor();
    await field.fill("Qwen2.5-72B-Instruct");
    await main(reader)
      .getByText(/short, even with \w+, the smallest quantization: choose a smaller model/)
      .first()
      .waitFor();
    expect(new URL(reader.page.url()).searchParams.get("model")).toBe("Qwen2.5-72B-Instruct");
  });

  it("say where a model would go, also without a service or a host, and for how many replicas", async () => {
    await on().serve("chat", "mac-1");
    await using reader = await on().administrator();
    await reader.goTo("/fits?tab=query&model=Qwen2.5-0.5B&quantization=Q4_K_M&context=4096");
    const room = main(reader).getByText(/^1 machine fits, with memory for \d+ replicas?$/);
    await room.waitFor();
    await main(reader).getByText("Recommended", { exact: true }).waitFor();
    const replicas = main(reader).getByLabel("Replicas");
    await replicas.clear();
    expect(await replicas.inputValue()).toBe("");
    await replicas.pressSequentially("900");
    await main(reader)
      .getByText(/These have memory for \d+ of the 900 replicas now/)
      .waitFor();
    const without = main(reader).getByLabel("Without");
    await without.selectOption("default/chat");
    await main(reader)
      .getByText(/Without default\/chat, 1 replica with [\d.]+ [GM]iB would be stopped/)
      .waitFor();
    await room.waitFor();
    await expectAccessible(reader.page);
    await without.selectOption("mac-1");
    await main(reader)
      .getByText(/1 replica with [\d.]+ [GM]iB would have to move away from mac-1/)
      .waitFor();
    await main(reader).getByText("No machine takes new replicas.").waitFor();
    expect(new URL(reader.page.url()).searchParams.get("without")).toBe("mac-1");
  });

  it("show what needs attention on the overview, with its remedy", async () => {
    const absent = {
      apiVersion: "metalbridge.dev/v1alpha1",
      kind: "Model",
      metadata: { name: "absent", namespace: "default" },
      spec: { source: "/no/such/file.gguf" },
    };
    const service = {
      apiVersion: "metalbridge.dev/v1alpha1",
      kind: "InferenceService",
      metadata: { name: "absent", namespace: "default" },
      spec: { modelRef: "absent", placement: { hosts: ["mac-1"] } },
    };
    await on().apply(absent, service);
    await using reader = await on().administrator();
    await reader.goTo("/");
    const item = main(reader).getByRole("article").filter({ hasText: "default/absent" }).first();
    await item.waitFor();
    // The Model and the service that it stops are one case.
    const links = item.getByRole("link", { name: "default/absent" });
    await expect.poll(() => links.count()).toBe(2);
    for (const [index, kind] of ["models", "services"].entries())
      expect(await links.nth(index).getAttribute("href")).toBe(`/console/${kind}/default/absent`);
    await item.getByText("affects").waitFor();
    await on().farm.objects.remove("default", "isvc/absent");
    await item.waitFor({ state: "detached" });
  });

  it("a model of the catalog is found, deployed from the hub, and answers", async () => {
    await using reader = await on().administrator();
    const { page } = reader;
    await reader.goTo("/");
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
    await using reader = await on().administrator();
    const { page } = reader;
    await reader.goTo("/hosts/mac-1?tab=fits&q=smollm2");
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
    await using reader = await on().administrator();
    const { page } = reader;
    await reader.goTo("/fits?tab=catalog&sort=-memory");
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
