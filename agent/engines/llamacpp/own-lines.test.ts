import { join } from "node:path";
import { expect, test } from "vitest";
import { ownLines } from "../../../src/engines/llamacpp/own-lines.ts";
import { runLlamaServer } from "../../../test/fixtures/run-llama-server.ts";
import { program } from "../../../test/fixtures/started-llama-server.ts";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { writeTinyGguf } from "../../../test/fixtures/tiny-gguf.ts";

const SECRET = "sesame";
/** Requests whose text the engine repeats in its log: bad JSON, an unknown setting, a grammar that does not parse. */
const REQUESTS: readonly (readonly [path: string, body: string])[] = [
  ["/v1/chat/completions", `{"messages": "${SECRET}\u0001 ${SECRET}`],
  [
    "/v1/chat/completions",
    JSON.stringify({
      messages: [{ role: "user", content: SECRET }],
      reasoning_format: SECRET,
      max_tokens: 2,
    }),
  ],
  ["/completion", JSON.stringify({ prompt: SECRET, grammar: `${SECRET} ::= [`, n_predict: 2 })],
  ["/completion", JSON.stringify({ prompt: SECRET, json_schema: { type: SECRET }, n_predict: 2 })],
  [`/${SECRET}`, "{}"],
];

test.skipIf(program === undefined)(
  "the log lines of a real llama-server that may be shown contain no text of its clients",
  async () => {
    await using folder = await temporaryFolder();
    const model = join(folder.path, "tiny.gguf");
    await writeTinyGguf(model);
    await using server = await runLlamaServer(program ?? "", ["-m", model, "-c", "512", "--no-warmup"]);
    for (const [path, body] of REQUESTS) {
      const response = await fetch(server.url + path, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body,
      });
      await response.text();
    }
    await expect.poll(server.log, { timeout: 60_000 }).toContain(`${SECRET} ::= [`);
    await expect.poll(server.log, { timeout: 60_000 }).toContain(`reasoning format: ${SECRET}`);
    const own = ownLines(server.log());
    expect(own).not.toContain(SECRET);
    expect(own).toContain("llama_server: model loaded");
    expect(own).toContain("failed to parse grammar");
  },
);
