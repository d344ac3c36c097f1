/**
 * The playground and the page of the gateway over a farm: chat, stop, another service, keys.
 * CPU: a browser over a whole farm with engines that answer.
 */
import { expect, it } from "vitest";
import { describeUnless } from "../bed/describe-unless.ts";
import { expectAccessible, takePictures } from "./looks.ts";
import { answers, ask, button } from "./playground-page.ts";
import { oneConsole, whyNoConsole } from "./started-console.ts";

const SYSTEM = { apiVersion: "v1", kind: "Namespace", metadata: { name: "metalbridge-system" } };

describeUnless(whyNoConsole, "the playground", () => {
  const on = oneConsole({ hosts: ["mac-1"] });

  it("streams an answer, stops it in the engine, and answers again with other parameters", async () => {
    await on().serve("chat", "mac-1");
    await using reader = await on().signedIn();
    const { page } = reader;
    await reader.open("/playground");
    await page.getByRole("button", { name: /^Service: default\/chat/ }).waitFor();
    await ask(reader, "Tell me a long story");
    await expect.poll(async () => (await answers(reader).textContent())?.length).toBeGreaterThan(200);
    await button(reader, "Stop").click();
    await page.getByText("Stopped", { exact: true }).waitFor();
    await expect.poll(inFlight).toBe(0);
    await page.getByText(/^First token \d/).waitFor();
    await page.getByLabel("Maximum tokens").fill("8");
    await button(reader, "Answer again").click();
    await page.getByText("Cut at the maximum of tokens").waitFor();
    await page.getByText(/^8 tokens, \d+ in the prompt$/).waitFor();
    await page.getByText("on mac-1", { exact: true }).waitFor();
    await expectAccessible(page);
  });

  it("keeps the conversation when the page changes, and answers an edited question", async () => {
    await using reader = await on().signedIn();
    const { page } = reader;
    await reader.open("/playground");
    await page.getByLabel("Maximum tokens").fill("4");
    await ask(reader, "First <b>question</b>");
    await button(reader, "Answer again").waitFor();
    await page.getByRole("link", { name: "Hosts" }).click();
    await page.getByRole("heading", { name: "Hosts" }).waitFor();
    await page.getByRole("link", { name: "Playground" }).click();
    await page.getByText("First <b>question</b>").waitFor();
    await button(reader, "Edit").click();
    await page.getByRole("textbox", { name: "Edit" }).fill("Second question");
    await button(reader, "Send again").click();
    await button(reader, "Answer again").waitFor();
    expect(await page.getByText("First <b>question</b>").count()).toBe(0);
    expect(await answers(reader).count()).toBe(1);
    await button(reader, "Code").click();
    const code = page.getByRole("dialog", { name: "The same request in code" });
    await code.getByText(`curl ${on().gateway.url}/v1/chat/completions`).waitFor();
    await code.getByText('"content": "Second question"').waitFor();
    await expectAccessible(page);
  });

  it("asks another service in the same conversation, and lists one that cannot be asked with its reason", async () => {
    await on().serve("other", "mac-1");
    const suspended = { modelRef: "chat", suspend: true, placement: { hosts: ["mac-1"] } };
    await on().apply({
      apiVersion: "metalbridge.dev/v1alpha1",
      kind: "InferenceService",
      metadata: { name: "resting" },
      spec: suspended,
    });
    await on().untilPhase("resting", "Suspended");
    await using reader = await on().signedIn();
    const { page } = reader;
    await reader.open("/playground");
    await page.getByLabel("Maximum tokens").fill("4");
    await page.getByRole("button", { name: /^Service: default\/chat/ }).waitFor();
    await ask(reader, "Hello");
    await button(reader, "Answer again").waitFor();
    await page.getByRole("button", { name: /^Service: default\/chat/ }).click();
    await page.getByRole("option", { name: /default\/other/ }).click();
    await ask(reader, "Hello");
    await expect.poll(() => button(reader, "Answer again").count()).toBe(2);
    const names = await Promise.all(
      (await answers(reader).all()).map((one) => one.getAttribute("aria-label")),
    );
    expect(names).toEqual(["default/chat", "default/other"]);
    await page.getByRole("button", { name: /^Service: default\/other/ }).click();
    const resting = page.getByRole("option", { name: /default\/resting/ });
    expect(await resting.getAttribute("aria-disabled")).toBe("true");
    await page.keyboard.press("Escape");
    await expectAccessible(page);
  });

  it("says word for word what the gateway refuses", async () => {
    await using reader = await on().signedIn();
    reader.expectProblems(/40\d|50\d/);
    const { page } = reader;
    await reader.open("/playground");
    await page.getByLabel("Maximum tokens").fill("4");
    await page.getByLabel("Message").fill("word ".repeat(9_000));
    await button(reader, "Send").click();
    await answers(reader)
      .getByRole("alert")
      .getByText(/exceeds|too long|larger/)
      .waitFor();
  });

  it("creates the first key once that is confirmed, asks for it, disables, enables and revokes it", async () => {
    await on().apply(SYSTEM);
    await using reader = await on().signedIn();
    reader.expectProblems(/401/);
    const { page } = reader;
    await reader.open("/gateway?tab=keys");
    await button(reader, "Create a key").click();
    const dialog = page.getByRole("dialog", { name: "Create a key" });
    await dialog.waitFor();
    // Back closes an empty dialog, and asks before a filled one closes, as Escape does.
    await page.evaluate("history.back()");
    await dialog.waitFor({ state: "detached" });
    await button(reader, "Create a key").click();
    await dialog.getByRole("button", { name: "Create a key" }).click();
    const name = dialog.getByLabel("Name (required)");
    await expect.poll(() => name.getAttribute("aria-invalid")).toBe("true");
    await name.fill("ada");
    const discard = page.getByRole("dialog", { name: "Discard what you have entered?" });
    for (const leave of [() => page.keyboard.press("Escape"), () => page.evaluate("history.back()")]) {
      await leave();
      await discard.getByRole("button", { name: "Cancel" }).click();
      await discard.waitFor({ state: "detached" });
      expect(await name.inputValue()).toBe("ada");
    }
    expect(page.url()).toMatch(/\/gateway\?tab=keys$/);
    await dialog.getByLabel("All services").check();
    await dialog.getByLabel("Weight").fill("5000");
    reader.expectProblems(/400/);
    await dialog.getByRole("button", { name: "Create a key" }).click();
    const first = page.getByRole("dialog", { name: "Create the first key?" });
    await first.getByText("from then on the gateway refuses every request without a key").waitFor();
    await first.getByRole("button", { name: "Cancel" }).click();
    await first.waitFor({ state: "detached" });
    await page.keyboard.press("Escape");
    await discard.getByRole("button", { name: "Cancel" }).click();
    await discard.waitFor({ state: "detached" });
    await dialog.getByRole("button", { name: "Create a key" }).click();
    await first.getByRole("button", { name: "Create a key" }).click();
    await dialog.getByText("must be at most 1000").waitFor();
    expect(await dialog.getByLabel("Weight").getAttribute("aria-invalid")).toBe("true");
    expect(await dialog.locator(".failure").count()).toBe(0);
    await takePictures(page, "gateway-key");
    await dialog.getByLabel("Weight").fill("");
    await dialog.getByLabel("Tokens per day (UTC)").fill("1000000");
    await expectAccessible(page);
    await dialog.getByRole("button", { name: "Create a key" }).click();
    await first.getByRole("button", { name: "Create a key" }).click();
    const made = page.getByRole("dialog", { name: "Copy the key now" });
    const key = (await made.locator("code").textContent()) ?? "";
    expect(key).toMatch(/^mbk_/);
    await made.getByRole("button", { name: "Done" }).click();
    await page.getByText("1,000,000 tokens/day").waitFor();
    await expectAccessible(page);

    await reader.open("/playground");
    await page.getByRole("heading", { name: "The gateway needs a key" }).waitFor();
    await page.getByLabel("Gateway key").fill(`mbk_${"x".repeat(43)}`);
    await button(reader, "Use this key").click();
    await page.getByText(/unknown/i).waitFor();
    await page.getByLabel("Gateway key").fill(key);
    await button(reader, "Use this key").click();
    await page.getByLabel("Maximum tokens").fill("4");
    await ask(reader, "Hello");
    await button(reader, "Answer again").waitFor();
    const stored = await page.evaluate<string>(
      "JSON.stringify([{ ...localStorage }, { ...sessionStorage }])",
    );
    expect(stored).not.toContain(key.slice(4));

    await page.getByRole("link", { name: "Gateway" }).click();
    await page.getByRole("tab", { name: "Keys" }).click();
    for (const [act, state] of [
      ["Disable", "Disabled"],
      ["Enable", "Active"],
    ] as const) {
      await button(reader, act).click();
      const ask = page.getByRole("dialog", { name: `${act} key ada?` });
      await ask.getByRole("button", { name: act }).click();
      await page.getByText(state, { exact: true }).waitFor();
    }
    await button(reader, "Revoke").click();
    const confirm = page.getByRole("dialog", { name: "Revoke key ada?" });
    await confirm.getByText("It is the last active key").waitFor();
    await confirm.getByRole("button", { name: "Revoke" }).click();
    await page.getByText("Revoked", { exact: true }).waitFor();
    await page.getByRole("link", { name: "Playground" }).click();
    await page
      .getByText(/revoked/)
      .first()
      .waitFor();
  });

  async function inFlight(): Promise<number> {
    const line = /^metalbridge_gateway_requests_in_flight\{[^}]*\} (\d+)/m.exec(await on().gateway.metrics());
    return Number(line?.[1] ?? Number.NaN);
  }
});
