/** What the playground shows of real engines: their hosts, images, vectors, ranks, code that runs, failures, freed slots. */
import { execFile } from "node:child_process";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import type { Locator } from "playwright-core";
import { beforeAll, expect, it, onTestFinished } from "vitest";
import type { TinyModelOptions } from "../../local/demo/tiny-model.ts";
import { packageRoot } from "../../local/package-root.ts";
import { CONSOLE_HEADER, CONSOLE_PATH } from "../../src/console/protocol.ts";
import { ENDPOINT_SLICES } from "../../src/kube/kinds.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import type { ConsolePage } from "../bed/console/browser.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { livingEngines } from "../bed/engines.ts";
import { model, serviceAnywhere } from "../bed/manifests.ts";
import { runVerb } from "../cli/program.ts";
import { writeTinyGguf, writeTinyProjector } from "../fixtures/tiny-gguf.ts";
import { ensurePythonPackage } from "../interop/python-package.ts";
import { expectAccessible } from "./looks.ts";
import { answers, ask, button } from "./playground-page.ts";
import { oneConsole, whyNoConsole } from "./started-console.ts";

const HOSTS = ["mac-1", "mac-2"];
const SYSTEM = { apiVersion: "v1", kind: "Namespace", metadata: { name: "metalbridge-system" } };
const OPENAI = {
  name: "openai",
  version: "3.57.0",
  requirements: path.join(import.meta.dirname, "openai-requirements.txt"),
  size: "10 MB",
  finish: [],
};
/** What the code for chat, embeddings and reranking prints. */
const PRINTED = [/\w/, /^(64 \[[^\]]*\]\s*){3}$/, /relevance_score/];
const run = promisify(execFile);

/** A text: why the code cannot be run here. */
async function programOf(language: string, note: (text: string) => void) {
  if (language === "curl") return { file: "code.sh", path: "sh" };
  const python = await ensurePythonPackage(OPENAI, note);
  return typeof python === "string" ? python : { file: "code.py", path: path.join(python.bin, "python") };
}

/** A picture of noise, larger than a server's usual limit of a body, as a paste or a drop on the field. */
const give = (event: string) => `new Promise((given) => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 800;
  const context = canvas.getContext("2d");
  const noise = context.createImageData(800, 800);
  for (let at = 0; at < noise.data.length; at += 1) noise.data[at] = at % 4 === 3 ? 255 : 256 * Math.random();
  context.putImageData(noise, 0, 0);
  canvas.toBlob((blob) => {
    const data = new DataTransfer();
    data.items.add(new File([blob], "noise.png", { type: "image/png" }));
    const init = { bubbles: true, cancelable: true };
    document.querySelector(".composer textarea").dispatchEvent(${event});
    given(blob.size);
  });
})`;
const PASTE = give('new ClipboardEvent("paste", { ...init, clipboardData: data })');
const DROP = give('new DragEvent("drop", { ...init, dataTransfer: data })');

/** Not hidden below the field for messages. */
const IS_FORM_SEEN = `document.querySelector(".gateway-key").getBoundingClientRect().bottom <=
  document.querySelector(".composer").getBoundingClientRect().top`;

describeUnless(whyNoConsole, "the playground and the engines", () => {
  const on = oneConsole({ hosts: HOSTS });
  const openChat = async (reader: ConsolePage, service: string) => {
    await reader.open(`/playground?service=default/${service}`);
    await reader.page
      .getByRole("button", { name: new RegExp(`^Service: default/${service} ?Ready`) })
      .waitFor();
  };
  const hostOf = async (reader: ConsolePage) => {
    const host = answers(reader).getByText(/^on mac-\d$/);
    return (await host.textContent())?.slice(3) ?? "";
  };

  beforeAll(async () => {
    await on().serve("pair", "", { replicas: 2, placement: { hosts: HOSTS } });
    await on().apply(SYSTEM);
  });

  it("names under each answer the host that gave it, of several", async () => {
    await using one = await on().signedIn();
    await using other = await on().signedIn();
    for (const reader of [one, other]) await openChat(reader, "pair");
    await ask(one, "Tell me a long story");
    await expect.poll(busySlots).toBe(1);
    // The other replica has nothing to do.
    await other.page.getByLabel("Maximum tokens").fill("4");
    await ask(other, "Who are you?");
    await button(other, "Answer again").waitFor();
    await button(one, "Stop").click();
    expect((await Promise.all([one, other].map(hostOf))).sort()).toEqual(HOSTS);
    const plain = await fetch(`${on().gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "pair", max_tokens: 1, messages: [{ role: "user", content: "Hi" }] }),
    });
    expect([plain.status, plain.headers.get("x-metalbridge-host")]).toEqual([200, null]);
  });

  it("frees the slot of the engine when the reader stops the answer", async () => {
    await using reader = await on().signedIn();
    const { page } = reader;
    await openChat(reader, "pair");
    await ask(reader, "Tell me a long story");
    await expect.poll(busySlots).toBe(1);
    await expect.poll(async () => (await answers(reader).textContent())?.length).toBeGreaterThan(200);
    await button(reader, "Stop").click();
    await page.getByText("Stopped", { exact: true }).waitFor();
    await expect.poll(busySlots).toBe(0);
  });

  it("keeps what an engine wrote before it died, says what to do, and gets the answer from another host", async () => {
    await using reader = await on().signedIn();
    reader.expectProblems(/ERR_INCOMPLETE_CHUNKED_ENCODING/);
    const { page } = reader;
    await openChat(reader, "pair");
    await ask(reader, "Tell me a long story");
    await expect.poll(async () => (await answers(reader).textContent())?.length).toBeGreaterThan(200);
    const host = await hostOf(reader);
    const agent = on().farm.agents.find(({ hostName }) => hostName === host);
    for (const pid of livingEngines(agent?.stateDir ?? "").values()) process.kill(pid, "SIGKILL");
    const failure = answers(reader).getByRole("alert");
    await failure.getByText("The connection to the engine ended before the answer was complete.").waitFor();
    await failure.getByText(/^Try again: another replica answers/).waitFor();
    expect((await answers(reader).textContent())?.length).toBeGreaterThan(400);
    await expectAccessible(page);
    await page.getByLabel("Maximum tokens").fill("8");
    await failure.getByRole("button", { name: "Try again" }).click();
    await page.getByText("Cut at the maximum of tokens").waitFor();
    expect(await hostOf(reader)).toBe(HOSTS.find((other) => other !== host));
  });

  it("sends pasted and dropped images to a model with a projector, and to no other", async () => {
    const projector = path.join(on().farm.modelsDir, "eyes.gguf");
    await writeTinyProjector(projector);
    await on().apply(model("eyes", projector));
    const modelRefs = [{ name: "sees" }, { name: "eyes", role: "projector" }];
    await on().serve("sees", "mac-1", { modelRef: undefined, modelRefs });
    await using reader = await on().signedIn();
    const { page } = reader;
    await openChat(reader, "pair");
    await page.getByText("No images: the model has no projector.").waitFor();
    await page.evaluate(DROP);
    expect(await page.locator(".composer img").count()).toBe(0);
    await openChat(reader, "sees");
    await button(reader, "Attach an image").waitFor();
    const file = page.locator("input[type=file]");
    const buffer = Buffer.alloc(21 << 20);
    await file.setInputFiles({ name: "large.png", mimeType: "image/png", buffer });
    await page.getByRole("alert").getByText("The images of a message may have 20 MiB together.").waitFor();
    await file.setInputFiles({ name: "a.txt", mimeType: "text/plain", buffer: Buffer.from("a") });
    await page.getByRole("alert").getByText("Only images can be attached.").waitFor();
    expect(await page.evaluate<number>(PASTE)).toBeGreaterThan(1 << 20);
    await page.evaluate(DROP);
    await expect.poll(() => page.locator(".composer img").count()).toBe(2);
    await button(reader, "Remove the image").first().click();
    await expectAccessible(page);
    await page.getByLabel("Maximum tokens").fill("4");
    const sent = page.waitForRequest(/chat\/completions/);
    await ask(reader, "What is this?");
    const body = JSON.parse((await sent).postData() ?? "{}");
    expect(body.messages).toEqual([
      {
        role: "user",
        content: [
          { type: "image_url", image_url: { url: expect.stringMatching(/^data:image\/png;base64,/) } },
          { type: "text", text: "What is this?" },
        ],
      },
    ]);
    await page.getByText(/^4 tokens, \d+ in the prompt$/).waitFor();
    expect(await hostOf(reader)).toBe("mac-1");
  });

  it("shows how similar texts are to an embedding model", async () => {
    await serveFile("vectors", { embedding: true }, "embedding");
    await using reader = await on().signedIn();
    const { page } = reader;
    await reader.open("/playground?tab=embeddings");
    await page.getByRole("button", { name: /^Service: default\/vectors/ }).waitFor();
    await page.getByLabel("Texts, one per line").fill("I like tea\nI like tea\nA train leaves");
    await button(reader, "Embed").click();
    await page.getByText("64 dimensions", { exact: true }).waitFor();
    await page.getByText("on mac-1", { exact: true }).waitFor();
    const table = page.getByRole("table", { name: "Cosine similarity" });
    const [text, first, second, third] = await cellsOf(table.locator("tbody tr").first());
    expect([text, first, second]).toEqual(["1. I like tea", "1.00", "1.00"]);
    await table.getByRole("rowheader", { name: "3. A train leaves" }).waitFor();
    expect(Number(third)).toBeLessThan(1);
    await expectAccessible(page);
  });

  it("ranks documents by the scores of a reranker", async () => {
    const metadata = { "llama.pooling_type": { type: "u32", value: 4 } } as const;
    await serveFile("ranks", { metadata }, "rerank");
    await using reader = await on().signedIn();
    const { page } = reader;
    await reader.open("/playground?tab=rerank");
    await page.getByRole("button", { name: /^Service: default\/ranks/ }).waitFor();
    const documents = ["I like tea", "A train leaves", "You like trains"];
    await page.getByLabel("Documents, one per line").fill(documents.join("\n"));
    await button(reader, "Rank").click();
    await page.getByText("on mac-1", { exact: true }).waitFor();
    const rows = await page.getByRole("main").locator("tbody tr").all();
    const cells = await Promise.all(rows.map(cellsOf));
    expect(cells.map(([rank]) => rank)).toEqual(["1", "2", "3"]);
    expect(cells.map(([, text]) => text).sort()).toEqual([...documents].sort());
    const scores = cells.map(([, , score]) => Number(score));
    expect(scores).toEqual([...scores].sort((a, b) => b - a));
    await expectAccessible(page);
  });

  it.for([
    { language: "curl", expected: [/"completion_tokens": ?8\b/, /"index": ?2\b/, /"relevance_score"/] },
    { language: "Python", expected: PRINTED },
  ])("shows code for $language that runs as it is, once it has a key", async (one, { skip, annotate }) => {
    const { language, expected } = one;
    const program = await programOf(language, annotate);
    if (typeof program === "string") return skip(program);
    const key = await createKey(language.toLowerCase(), "--all");
    await using reader = await on().signedIn();
    await giveKey(reader, key);
    const dir = await mkdtemp(path.join(tmpdir(), "mb-code-"));
    onTestFinished(() => rm(dir, { recursive: true }));
    await symlink(path.join(packageRoot(), "node_modules"), path.join(dir, "node_modules"));
    const outputs: string[] = [];
    for (const code of await codesOf(reader, language)) {
      expect(code).toContain("mbk_YOUR_KEY");
      await writeFile(path.join(dir, program.file), code.replace("mbk_YOUR_KEY", key));
      outputs.push((await run(program.path, [program.file], { cwd: dir })).stdout);
    }
    expect(outputs).toEqual(expected.map((pattern) => expect.stringMatching(pattern)));
  });

  it("says in plain words that a limit is reached or a key is revoked, and takes another key in place", async () => {
    const limited = await createKey("limited", "--all", "--requests-per-minute", "1");
    const other = await createKey("other", "--all");
    await using reader = await on().signedIn();
    reader.expectProblems(/4(01|29)/);
    const { page } = reader;
    await giveKey(reader, limited);
    await page.getByLabel("Maximum tokens").fill("4");
    await ask(reader, "One");
    await button(reader, "Answer again").waitFor();
    await ask(reader, "Two");
    const refused = /^This API key has reached its limit of 1 requests per minute. Try again in \d+ s.$/;
    await answers(reader).getByRole("alert").getByText(refused).waitFor();
    await metalbridge("key", "revoke", "limited");
    await ask(reader, "Three");
    await page.getByText(/^This API key was revoked/).waitFor();
    await expect.poll(() => page.evaluate(IS_FORM_SEEN)).toBe(true);
    await page.getByLabel("Gateway key").fill(other);
    await button(reader, "Use this key").click();
    await expect.poll(() => button(reader, "Answer again").count()).toBe(2);
    await expectAccessible(page);
  });

  const cellsOf = (row: Locator) => row.locator("th, td").allTextContents();

  async function serveFile(name: string, options: TinyModelOptions, mode: string): Promise<void> {
    const file = path.join(on().farm.modelsDir, `${name}.gguf`);
    await writeTinyGguf(file, options);
    const spec = { placement: { hosts: ["mac-1"] }, contextSize: 512, mode };
    await on().apply(model(name, file), serviceAnywhere(name, spec));
    await on().untilPhase(name, "Ready");
  }

  async function metalbridge(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await runVerb(args, { kubeconfig: on().farm.kubeconfig });
    if (code !== 0) throw new Error(stderr);
    return stdout.trim();
  }

  async function createKey(name: string, ...rights: string[]): Promise<string> {
    return metalbridge("key", "create", name, "--yes", ...rights);
  }

  /** The gateway's list of keys is a watch behind. */
  async function giveKey(reader: ConsolePage, key: string): Promise<void> {
    const headers = { authorization: `Bearer ${key}` };
    const models = `${on().gateway.url}/v1/models`;
    await expect.poll(async () => (await fetch(models, { headers })).status).toBe(200);
    await expect.poll(async () => (await fetch(models)).status).toBe(401);
    const headersOfPage = { [CONSOLE_HEADER]: "1", origin: on().url };
    const posted = { headers: headersOfPage, data: { key } };
    const answer = await reader.context.request.post(`${on().url}${CONSOLE_PATH}/gateway-key`, posted);
    expect(answer.ok()).toBe(true);
    await openChat(reader, "pair");
  }

  /** For chat, embeddings and reranking. */
  async function codesOf(reader: ConsolePage, language: string): Promise<readonly string[]> {
    const { page } = reader;
    const codes: string[] = [];
    await page.getByLabel("Maximum tokens").fill("8");
    await page.getByLabel("Message").fill('It\'s "quoted": $HOME `x` \\ ü\nand a line');
    for (const tab of ["Chat", "Embeddings", "Rerank"]) {
      await page.getByRole("tab", { name: tab }).click();
      await button(reader, "Code").click();
      const dialog = page.getByRole("dialog", { name: "The same request in code" });
      await dialog.getByText(language, { exact: true }).first().click();
      codes.push((await dialog.locator("pre").textContent()) ?? "");
      await page.keyboard.press("Escape");
    }
    return codes;
  }

  async function busySlots(): Promise<number> {
    const slices: readonly EndpointSlice[] = await on().farm.objects.list(
      ENDPOINT_SLICES,
      "kubernetes.io/service-name=pair",
    );
    const engines = slices.flatMap(({ endpoints, ports }) =>
      (endpoints ?? []).map(({ addresses }) => `http://${addresses[0]}:${ports?.[0]?.port}`),
    );
    const gauges = engines.map(async (url) => (await fetch(`${url}/metrics`)).text());
    const busy = (await Promise.all(gauges)).map(
      (text) => /^llamacpp:requests_processing (\d+)/m.exec(text)?.[1],
    );
    return busy.reduce((sum, count) => sum + Number(count), 0);
  }
});
