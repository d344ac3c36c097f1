/** Requests for which Ollama fails to look the model up, because another model is deleted at that moment. */
import { expect, test } from "vitest";
import { runFolder } from "../../src/supervise/fixtures/run.ts";
import { launchOf, untilState } from "../../test/fixtures/driver-agent.ts";
import { ollama, ollamaAgent, tinyModel } from "../../test/fixtures/ollama.ts";
import { CHAT_PATH, post, routeTo, startDaemon, startRoute } from "./fixtures/route.ts";

test("a request for which Ollama failed to look the model up is sent again, complete, and a client's own mistake is not", async () => {
  const received: string[] = [];
  const failures = [400, 404];
  await using daemon = await startDaemon(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    received.push(body);
    const status = failures.shift() ?? (body.includes("mistake") ? 400 : 200);
    const words = body.includes("mistake") ? "invalid options" : "model is required";
    const error = status === 404 ? "model 'hf.co/org/model:Q4' not found" : words;
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(status === 200 ? { got: body.length } : { error }));
  });
  await using gate = await startRoute(routeTo(daemon.port, { protocol: "ollama" }));
  const messages = [{ role: "user", content: "x".repeat(300_000) }];
  const answer = await post(`${gate.url}/api/chat`, { model: "chat", messages });
  expect([answer.status, received.length, new Set(received).size]).toEqual([200, 3, 1]);
  expect(await answer.json()).toEqual({ got: received[0]?.length });
  const mistaken = await post(`${gate.url}/api/chat`, { model: "chat", options: "mistake" });
  expect([mistaken.status, await mistaken.json()]).toEqual([400, { error: "invalid options" }]);
  failures.push(404, 404, 404, 404);
  const lost = await post(`${gate.url}/api/chat`, { model: "chat" });
  expect([lost.status, await lost.json()]).toEqual([404, { error: "model 'hf.co/org/model:Q4' not found" }]);
  expect([received.length, gate.bodies.bytes, gate.counters.requests]).toEqual([
    8,
    0,
    { 200: 1, 400: 1, 404: 1 },
  ]);
});

test.each([
  ["before any of it", "", /^\{"error":"the model's server broke off its answer"\}$/],
  ["in the middle", '{"error":"mod', /broke off its answer|^cut$/],
])("a refusal of Ollama that breaks off %s ends the request", async (_, sent, seen) => {
  await using daemon = await startDaemon((request, response) => {
    request.resume().once("end", () => {
      response.writeHead(400, { "content-type": "application/json", "content-length": 99 });
      response.flushHeaders();
      response.write(sent, () => response.destroy());
    });
  });
  await using gate = await startRoute(routeTo(daemon.port, { protocol: "ollama" }));
  const text = await post(`${gate.url}/api/chat`, { model: "chat" }).then(
    (answer) => answer.text().catch(() => "cut"),
    () => "cut",
  );
  expect(text).toMatch(seen);
});

test.skipIf(ollama === undefined)(
  "no request to a real Ollama fails while other models are deleted",
  async () => {
    await using folder = runFolder();
    const agent = ollamaAgent(folder);
    const instance = await agent.driver.open(agent.placeOf("a"), launchOf(await tinyModel(folder)));
    await untilState(instance, "running");
    const { port = 0, modelAlias: model = "" } = instance.target;
    await using gate = await startRoute(routeTo(port, { protocol: "ollama", model }));
    let isOver = false;
    const deleteOthers = async (other: string): Promise<void> => {
      while (!isOver) {
        await post(`http://127.0.0.1:${port}/api/copy`, { source: model, destination: other });
        const body = JSON.stringify({ model: other });
        await fetch(`http://127.0.0.1:${port}/api/delete`, { method: "DELETE", body });
      }
    };
    const deletions = ["b", "c", "d"].map(deleteOthers);
    const failures: string[] = [];
    const prompts = [
      [CHAT_PATH, { messages: [{ role: "user", content: "Hi" }], max_tokens: 1 }],
      ["/v1/completions", { prompt: "Hi", max_tokens: 1 }],
    ] as const;
    for (let round = 0; round < 60; round += 1)
      for (const [path, body] of prompts) {
        const answer = await post(`${gate.url}${path}`, { model: "chat", ...body });
        const text = await answer.text();
        if (answer.status !== 200) failures.push(text);
      }
    isOver = true;
    await Promise.all(deletions);
    expect(failures).toEqual([]);
    instance.killNow();
    await untilState(instance, "gone");
  },
);
