/** InferenceReplicas on the real Ollama, from the API server to Ready and back to nothing. */
import { readFileSync } from "node:fs";
import { expect, test, vi } from "vitest";
import { ollama, startRegistry } from "../../../test/fixtures/ollama.ts";
import type { AgentChanges } from "../../../test/replicas/agent.ts";
import { withBench } from "../../../test/replicas/with-bench.ts";
import type { AgentConfig } from "../../config/schema.ts";
import { createEngineDrivers } from "../registry.ts";

const FAST = { liveProbeMs: 200, failedProbeMs: 50, backoffFirstMs: 100, propagationMs: 100 };
const PATIENT = { timeout: 60_000, interval: 20 };

function withOllama(more: Partial<AgentConfig["ollama"]> = {}): AgentChanges {
  const config = { llamaServer: [], ollama: { programs: [ollama ?? ""], ...more } };
  return { timings: FAST, drivers: (options) => createEngineDrivers({ ...options, config }) };
}

test.skipIf(ollama === undefined)(
  "two replicas of one model are Ready on one server, return after it was killed, and one stays when the other goes",
  withBench(async (bench) => {
    await bench.startAgent(withOllama());
    for (const name of ["a-0", "b-0"]) {
      await bench.createReplica(name, (spec) => {
        Object.assign(spec.template, { runtime: "ollama", serviceName: name.slice(0, 1) });
        Object.assign(spec, { drainSeconds: 0 });
      });
    }
    const before = await bench.untilPhase("a-0", "Ready");
    const other = await bench.untilPhase("b-0", "Ready");
    expect(before.status?.pid).toBe(other.status?.pid);
    expect(before.status?.memory?.footprintBytes ?? 1).toBeGreaterThan(0);
    process.kill(before.status?.pid ?? 0, "SIGKILL");
    for (const name of ["a-0", "b-0"]) {
      await bench.untilReplica(name, (found) => {
        expect(found?.status).toMatchObject({ phase: "Ready", lastExit: { reason: "EngineKilled" } });
        expect(found?.status?.pid).not.toBe(before.status?.pid);
      });
    }
    await bench.deleteReplica("a-0");
    await bench.untilGone("a-0");
    expect((await bench.replica("b-0"))?.status?.phase).toBe("Ready");
  }),
);

test.skipIf(ollama === undefined)(
  "a model that Ollama pulls is fetched, sized by its own header and served; a tag that does not exist is waited for",
  withBench(async (bench) => {
    await using registry = await startRegistry("tiny", readFileSync(bench.modelPath));
    await bench.startAgent(withOllama({ registry: registry.url }));
    const create = (name: string, source: string) =>
      bench.createReplica(name, (spec) => {
        const model = { source, files: [], format: "ollama", refreshPolicy: "IfNotPresent" };
        Object.assign(spec.template, { runtime: "ollama", serviceName: name.slice(0, -2), model });
        Object.assign(spec, { drainSeconds: 0, memory: { claimBytes: 0, weightsBytes: 0 } });
      });
    await create("none-0", "ollama://tiny:7b");
    const missing = await bench.untilReason("none-0", "SourceNotFound");
    expect(missing.status?.message).toContain("tiny:7b");
    await create("tiny-0", "ollama://tiny");
    const ready = await bench.untilPhase("tiny-0", "Ready");
    expect(ready.status?.model).toMatchObject({
      gguf: { architecture: "llama" },
      sha256: expect.any(String),
    });
  }),
);

test.skipIf(ollama === undefined)(
  "clients reach a replica through the gate, over a new agent and until the last answer of a drain, and only its model",
  withBench(async (bench) => {
    const first = await bench.startAgent(withOllama());
    await bench.createReplica("chat-0", (spec) => {
      Object.assign(spec.template, { runtime: "ollama", serviceName: "chat" });
      Object.assign(spec, { drainSeconds: 20 });
    });
    const { status } = await bench.untilPhase("chat-0", "Ready");
    const base = `http://${bench.address}:${status?.port}`;
    const ask = (path: string, body: object, method = "POST") =>
      fetch(`${base}${path}`, { method, body: JSON.stringify(body) });
    const chat = (more: object = {}) =>
      ask("/v1/chat/completions", { messages: [{ role: "user", content: "Hi" }], max_tokens: 4, ...more });
    expect((await chat()).status).toBe(200);
    expect((await chat({ model: "chat" })).status).toBe(200);
    expect((await chat({ model: "other" })).status).toBe(404);
    expect((await ask("/api/delete", { model: "chat" }, "DELETE")).status).toBe(403);
    expect(await (await fetch(`${base}/api/tags`)).json()).toMatchObject({ models: [{ name: "chat" }] });

    await first.end();
    expect((await chat()).status).toBe(200);
    await bench.startAgent(withOllama());
    expect((await bench.untilPhase("chat-0", "Ready")).status).toMatchObject({
      restarts: 0,
      pid: status?.pid,
    });

    const long = await ask("/api/generate", { prompt: "a", raw: true, options: { num_predict: 400 } });
    await bench.deleteReplica("chat-0");
    expect(await long.text()).toMatch(/"done":true/);
    await bench.untilGone("chat-0");
    // The gate closes the port on its own time.
    await vi.waitFor(() => expect(chat()).rejects.toThrow(), PATIENT);
  }),
);
