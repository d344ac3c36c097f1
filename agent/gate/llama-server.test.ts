/** The gate before a real engine. */

import path from "node:path";
import { describe, expect, test } from "vitest";
import { processPorts, runFolder } from "../../src/supervise/fixtures/run.ts";
import { freePort } from "../../test/bed/ports.ts";
import { until } from "../../test/bed/until.ts";
import { runLlamaServer } from "../../test/fixtures/run-llama-server.ts";
import { healthy, prepareTiny, processes, program } from "../../test/fixtures/started-llama-server.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { writeTinyGguf } from "../../test/fixtures/tiny-gguf.ts";
import { gatePorts, openAgent } from "./fixtures/process.ts";
import { post, routeTo, startRoute } from "./fixtures/route.ts";

describe.skipIf(program === undefined)("before llama-server", () => {
  test("a service answers and streams under its own name, through an upgrade, until it is drained", async () => {
    await using folder = runFolder();
    const { driver, dir, prepared, target } = await prepareTiny(folder);
    const place = { dir, log: processPorts().log, onChange: () => {} };
    const engine = await processes.open(place, { ...prepared, record: {}, target });
    await healthy(driver, target);
    const port = await freePort();
    const listen = { address: "127.0.0.1", port };
    const route = {
      ...routeTo(target.port, { listen, model: "tiny", service: "stories" }),
      limits: { idleMs: 300 },
    };
    const url = `http://127.0.0.1:${port}`;
    const messages = [{ role: "user", content: "Tell me about the sea." }];
    const first = await openAgent(gatePorts(folder), [route]);

    const models = await (await fetch(`${url}/v1/models`)).json();
    expect(models).toMatchObject({ data: [{ id: "stories", meta: expect.any(Object) }] });
    const answer = await post(`${url}/v1/chat/completions`, { model: "stories", messages, max_tokens: 4 });
    expect(await answer.json()).toMatchObject({ choices: [expect.any(Object)] });
    const other = await post(`${url}/v1/chat/completions`, { model: "tiny-other", messages });
    expect(other.status).toBe(404);
    expect((await fetch(`${url}/slots`)).status).toBe(403);

    const body = { messages, max_tokens: 200, stream: true };
    const streamed = (await post(`${url}/v1/chat/completions`, body)).text();
    first.close();
    using second = await openAgent(gatePorts(folder, { release: "2" }));
    await second.drain(route.id);
    expect(await streamed).toMatch(/data: \[DONE\]\s*$/);
    expect((await post(`${url}/v1/chat/completions`, { messages })).status).toBe(503);
    await until(async () => expect(await driver.readWork(target)).toMatchObject({ inFlight: 0 }));
    engine.killNow();
  });

  test("a request right after a stream is served, although the engine closes the stream's connection", async () => {
    await using folder = runFolder();
    const { driver, dir, prepared, target } = await prepareTiny(folder);
    const place = { dir, log: processPorts().log, onChange: () => {} };
    const engine = await processes.open(place, { ...prepared, record: {}, target });
    await healthy(driver, target);
    await using gate = await startRoute(routeTo(target.port, { model: "tiny", protocol: "any" }));
    const ask = (more: object) => post(`${gate.url}/v1/completions`, { prompt: "a", max_tokens: 1, ...more });
    const statuses: number[] = [];
    for (let round = 0; round < 100; round += 1) {
      await (await ask({ stream: true })).text();
      const answer = await ask({});
      await answer.text();
      statuses.push(answer.status);
    }
    expect(statuses.filter((status) => status !== 200)).toEqual([]);
    engine.killNow();
  });

  test("a request without stream ends in the engine within a second after its client has left", async () => {
    await using folder = await temporaryFolder();
    const model = path.join(folder.path, "tiny.gguf");
    await writeTinyGguf(model);
    const flags = ["-m", model, "-c", "32768", "-np", "1", "--no-warmup", "--metrics"];
    await using engine = await runLlamaServer(program ?? "", flags);
    const port = Number(new URL(engine.url).port);
    await using gate = await startRoute(routeTo(port, { protocol: "any" }));
    const leaving = new AbortController();
    const answer = fetch(`${gate.url}/v1/completions`, {
      method: "POST",
      signal: leaving.signal,
      body: JSON.stringify({ prompt: "once", n_predict: -1, ignore_eos: true }),
    });
    const failed = expect(answer).rejects.toThrow();
    await until(() => expect(engine.log()).toContain("processing task"));
    leaving.abort();
    await failed;
    await until(() => expect(engine.log()).toMatch(/cancel task.*stop processing/s));
    const metrics = await (await fetch(`${engine.url}/metrics`)).text();
    expect(metrics).toContain("llamacpp:requests_processing 0");
    expect(gate.counters.requests).toEqual({ 499: 1 });
  });

  test("a client that disconnects frees the engine's slot", async () => {
    await using folder = runFolder();
    const { driver, dir, prepared, target } = await prepareTiny(folder, { contextSize: 4_096 });
    const engine = await processes.open(
      { dir, log: processPorts().log, onChange: () => {} },
      { ...prepared, record: {}, target },
    );
    await healthy(driver, target);
    const port = await freePort();
    const listen = { address: "127.0.0.1", port };
    using gate = await openAgent(gatePorts(folder), [routeTo(target.port, { listen, model: "tiny" })]);
    const leaving = new AbortController();
    const answer = await fetch(`http://127.0.0.1:${port}/v1/completions`, {
      method: "POST",
      signal: leaving.signal,
      body: JSON.stringify({ prompt: "once", n_predict: 100_000, ignore_eos: true, stream: true }),
    });
    await answer.body?.getReader().read();
    expect(await gate.inFlight("replica-1")).toBe(1);
    leaving.abort();
    await until(async () => expect(await gate.inFlight("replica-1")).toBe(0));
    await until(async () => expect(await driver.readWork(target)).toMatchObject({ inFlight: 0 }));
    engine.killNow();
  });
});
