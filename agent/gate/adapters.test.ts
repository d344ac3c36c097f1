/** The gate serves the adapters of llama-server as models of their own names. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { processPorts, runFolder } from "../../src/supervise/fixtures/run.ts";
import { freePort } from "../../test/bed/ports.ts";
import {
  healthy,
  prepareTiny,
  processes,
  program,
  template,
} from "../../test/fixtures/started-llama-server.ts";
import { writeTinyLora } from "../../test/fixtures/tiny-gguf.ts";
import { gatePorts, openAgent } from "./fixtures/process.ts";
import { post, routeTo, startDaemon, startRoute } from "./fixtures/route.ts";

const adapters = ["style", "tone"];
const base = { protocol: "any", service: "chat", model: "chat", adapters } as const;

test("a request that names an adapter selects it, and all other bytes pass unchanged", async () => {
  await using daemon = await startDaemon();
  await using gate = await startRoute(routeTo(daemon.port, base));
  const ask = async (path: string, body: string) =>
    (await fetch(`${gate.url}${path}`, { method: "POST", body })).status;
  const none = '"lora":[{"id":0,"scale":0}]';
  const sent: readonly [path: string, body: string, received: string | number][] = [
    [
      "/v1/chat/completions",
      '{"n":1.0, "model":"tone"}',
      '{"n":1.0, "model":"chat","lora":[{"id":1,"scale":1}]}',
    ],
    ["/completions?x=1", '{"model":"style"}', '{"model":"chat","lora":[{"id":0,"scale":1}]}'],
    ["/v1/completions", '{"model":"chat","n":2}', `{"model":"chat",${none},"n":2}`],
    ["/completion", '{"n":2}', `{"model":"chat",${none},"n":2}`],
    ["/v1/responses", '{"lora":[ ]}', `{"model":"chat",${none}}`],
    ["/v1/completions", '{"lora":[{"id":1}]}', '{"model":"chat","lora":[{"id":1}]}'],
    ["/tokenize", '{"model":"any"}', '{"model":"any"}'],
    ["/v1/completions", '{"model":"other"}', 404],
    ["/v1/completions", '{"lora":[],"model":"tone"}', 400],
    // llama-server does not apply adapters there, and must not answer without one.
    ["/v1/messages", '{"model":"tone"}', 404],
  ];
  for (const [path, body, received] of sent) {
    const status = await ask(path, body);
    expect([path, body, status === 200 ? daemon.received.at(-1)?.body : status]).toEqual([
      path,
      body,
      received,
    ]);
  }
});

test.skipIf(program === undefined)("each adapter of a real llama-server answers under its name", async () => {
  await using folder = runFolder();
  const loraPaths = adapters.map((name) => join(folder.root, `${name}.gguf`));
  for (const [index, path] of loraPaths.entries()) await writeTinyLora(path, index + 1);
  const weights = { ...template().model };
  const loraAdapters = adapters.map((servedName) => ({ model: weights, scale: 0, servedName }));
  const launch = { loraPaths, template: { ...template(), loraAdapters } };
  const { driver, dir, prepared, target } = await prepareTiny(folder, {}, {}, launch);
  const place = { dir, log: processPorts().log, onChange: () => {} };
  const engine = await processes.open(place, { ...prepared, record: {}, target });
  await healthy(driver, target);
  const port = await freePort();
  const listen = { address: "127.0.0.1", port };
  using _gate = await openAgent(gatePorts(folder), [routeTo(target.port, { ...base, listen })]);
  const likely = async (model: string) => {
    const body = { model, prompt: "Once upon a time", max_tokens: 4, temperature: 0, logprobs: 3 };
    const answer = await post(`http://127.0.0.1:${port}/v1/completions`, body);
    const { choices } = (await answer.json()) as { choices: readonly { logprobs: object }[] };
    return JSON.stringify(choices[0]?.logprobs);
  };
  const [plain, style, tone] = [await likely("chat"), await likely("style"), await likely("tone")];
  expect(new Set([plain, style, tone]).size).toBe(3);
  expect(await likely("chat")).toBe(plain);
  engine.killNow();
});
