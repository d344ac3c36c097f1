/** Which helpers of official clients read the streams of `/v1/responses` of the real llama-server: the table in docs/gateway.md. */
import { readFileSync } from "node:fs";
import path from "node:path";
import OpenAI from "openai";
import { expect, it } from "vitest";
import { describeUnless } from "../bed/describe-unless.ts";
import { root } from "../docs/pages.ts";
import { findLlamaServer } from "../fixtures/llama-server.ts";
import { runLlamaServer } from "../fixtures/run-llama-server.ts";
import { temporaryFolder } from "../fixtures/temporary-folder.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";

const llamaServer = findLlamaServer();
const ASK = { model: "m", input: "hello", max_output_tokens: 4, temperature: 0 };
/** Fields that the API requires of each event of an item and of each event of its parts. */
const OF_EVENT = ["sequence_number"];
const OF_ITEM = [...OF_EVENT, "output_index"];
const OF_PART = [...OF_ITEM, "content_index"];
const REQUIRED: Readonly<Record<string, readonly string[]>> = {
  "response.created": [...OF_EVENT, "response.created_at", "response.model", "response.output"],
  "response.output_item.added": OF_ITEM,
  "response.content_part.added": OF_PART,
  "response.output_text.delta": OF_PART,
  "response.output_text.done": OF_PART,
  "response.content_part.done": OF_PART,
  "response.output_item.done": OF_ITEM,
  "response.completed": OF_EVENT,
};
const why = llamaServer === undefined ? "needs llama-server: npm run setup" : undefined;

describeUnless(why, "/v1/responses of llama-server", () => {
  it("has the helpers that docs/gateway.md lists; a test that fails here is a llama-server that does more: change the table", async () => {
    await using folder = await temporaryFolder();
    const file = path.join(folder.path, "tiny.gguf");
    await writeTinyGguf(file);
    await using engine = await runLlamaServer(llamaServer ?? "", ["-m", file, "-c", "512", "--no-warmup"]);
    const client = new OpenAI({ baseURL: `${engine.url}/v1`, apiKey: "none", maxRetries: 0 });
    const page = readFileSync(path.join(root, "docs", "gateway.md"), "utf8");

    const { output_text } = await client.responses.create(ASK);
    expect(output_text).not.toBe("");
    expect((await client.responses.parse(ASK)).output_text).toBe(output_text);
    expect((await client.responses.inputTokens.count({ model: "m", input: "hello" })).input_tokens).toBe(9);
    let text = "";
    const missing: Record<string, readonly string[]> = {};
    for await (const event of await client.responses.create({ ...ASK, stream: true })) {
      if (event.type === "response.output_text.delta") text += event.delta;
      const lacks = (REQUIRED[event.type] ?? []).filter((field) => valueAt(event, field) === undefined);
      if (lacks.length > 0) missing[event.type] = lacks;
    }
    expect(text).toBe(output_text);
    // The AI SDK requires output_index, and created_at and model of the first response.
    expect(missing).toEqual(REQUIRED);
    const failure = "missing output at index undefined";
    await expect(client.responses.stream(ASK).finalResponse()).rejects.toThrow(failure);
    expect(page).toContain(failure);
    const chat = { model: "m", messages: [{ role: "user" as const, content: "hello" }], max_tokens: 4 };
    expect(await client.chat.completions.stream(chat).finalContent()).not.toBe("");
  });
});

function valueAt(event: object, field: string): unknown {
  return field
    .split(".")
    .reduce<unknown>((value, name) => (value as Readonly<Record<string, unknown>>)[name], event);
}
