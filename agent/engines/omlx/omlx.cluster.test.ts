/** InferenceReplicas on the replayed oMLX, from the API server to Ready, through its troubles, and back to nothing. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { SECRETS } from "../../../src/kube/kinds.ts";
import { installOmlx } from "../../../test/fixtures/omlx/agent.ts";
import { writeTinyMlx } from "../../../test/fixtures/tiny-mlx.ts";
import type { AgentChanges } from "../../../test/replicas/agent.ts";
import type { Bench } from "../../../test/replicas/bench.ts";
import { withBench } from "../../../test/replicas/with-bench.ts";
import { createEngineDrivers } from "../registry.ts";

const FAST = {
  liveProbeMs: 200,
  failedProbeMs: 50,
  backoffFirstMs: 100,
  propagationMs: 100,
  fetchRetryFirstMs: 200,
  fetchRetryMaxMs: 200,
};
const PATIENT = { timeout: 60_000, interval: 20 };

function withOmlx(bench: Bench) {
  const program = installOmlx(bench.place.root);
  const omlx = { programs: [program.path], cacheRoots: [] };
  const changes: AgentChanges = {
    timings: FAST,
    drivers: (options) => createEngineDrivers({ ...options, config: { llamaServer: [], omlx } }),
  };
  const create = (name: string, model = "tiny", more: object = {}) => {
    const source = join(bench.place.root, "mlx", model);
    writeTinyMlx(source);
    return bench.createReplica(name, (spec) => {
      const weights = { source, files: [], format: "mlx", refreshPolicy: "IfNotPresent" };
      const engine = { mode: "chat", contextSize: 512, parallelSlots: 1 };
      Object.assign(spec.template, {
        runtime: "omlx",
        serviceName: name.slice(0, -2),
        model: weights,
        engine,
        ...more,
      });
      Object.assign(spec, { drainSeconds: 0, memory: { claimBytes: 0, weightsBytes: 0 } });
    });
  };
  return { program, changes, create };
}

test(
  "replicas of two models are Ready on one server, say that it was killed with all its models, return, and one stays",
  withBench(async (bench) => {
    const { changes, create } = withOmlx(bench);
    await bench.startAgent(changes);
    await create("a-0");
    await create("b-0", "other");
    const before = await bench.untilPhase("a-0", "Ready");
    expect((await bench.untilPhase("b-0", "Ready")).status?.pid).toBe(before.status?.pid);
    expect(before.status).toMatchObject({
      model: { gguf: { architecture: "llama" } },
      memory: { claimBasis: expect.stringContaining("config.json") },
    });
    process.kill(before.status?.pid ?? 0, "SIGKILL");
    for (const name of ["a-0", "b-0"]) {
      await bench.untilReplica(name, (found) => {
        expect(found?.status).toMatchObject({
          phase: "Ready",
          lastExit: { reason: "EngineKilled" },
          transitions: expect.arrayContaining([
            expect.objectContaining({
              reason: "EngineKilled",
              message: expect.stringContaining("all its models"),
            }),
          ]),
        });
        expect(found?.status?.pid).not.toBe(before.status?.pid);
      });
    }
    await bench.deleteReplica("a-0");
    await bench.untilGone("a-0");
    expect((await bench.replica("b-0"))?.status?.phase).toBe("Ready");
  }),
);

test(
  "a replica that oMLX has no memory for says what to do, and is Ready once there is; its neighbor stays",
  withBench(async (bench) => {
    const { program, changes, create } = withOmlx(bench);
    await bench.startAgent(changes);
    await create("good-0");
    const good = await bench.untilPhase("good-0", "Ready");
    program.play({ ceiling: 10 });
    await create("large-0", "large");
    const refused = await bench.untilExit("large-0", "EngineOutOfMemory");
    const messages = refused.status?.transitions?.map(({ message }) => message).join("\n");
    expect(messages).toMatch(/nothing was evicted: unload .*lower contextSize/s);
    program.play({});
    await bench.untilPhase("large-0", "Ready");
    expect((await bench.replica("good-0"))?.status).toMatchObject({ pid: good.status?.pid, restarts: 0 });
  }),
);

test(
  "a busy server is waited for, and a hung one ends its replicas, which return on another",
  withBench(async (bench) => {
    const { program, changes, create } = withOmlx(bench);
    program.play({ busy: ["*"] });
    await bench.startAgent(changes);
    await create("a-0");
    await bench.untilPhase("a-0", "Starting");
    program.play({});
    const ready = await bench.untilPhase("a-0", "Ready");
    expect(ready.status?.restarts).toBe(0);
    process.kill(ready.status?.pid ?? 0, "SIGSTOP");
    await bench.untilExit("a-0", "EngineHung");
    const again = await bench.untilPhase("a-0", "Ready");
    expect(again.status?.pid).not.toBe(ready.status?.pid);
  }),
);

test(
  "clients reach a replica through the gate without the server's key, over a new agent, and only its model",
  withBench(async (bench) => {
    const { changes, create } = withOmlx(bench);
    const first = await bench.startAgent(changes);
    await create("chat-0");
    const { status } = await bench.untilPhase("chat-0", "Ready");
    const base = `http://${bench.address}:${status?.port}`;
    const ask = (path: string, body: object) =>
      fetch(`${base}${path}`, { method: "POST", body: JSON.stringify(body) });
    const chat = (more: object = {}) =>
      ask("/v1/chat/completions", { messages: [{ role: "user", content: "Hi" }], max_tokens: 4, ...more });
    expect(await (await chat()).json()).toMatchObject({ usage: { completion_tokens: 4 } });
    expect(await (await chat({ model: "chat", stream: true })).text()).toMatch(/sea .*\[DONE\]/s);
    expect((await chat({ model: "other" })).status).toBe(404);
    expect((await ask("/v1/models/chat/unload", {})).status).toBe(403);
    expect((await ask("/admin/api/login", { api_key: "x" })).status).toBe(403);
    expect(await (await fetch(`${base}/v1/models`)).json()).toMatchObject({ data: [{ id: "chat" }] });
    await first.end();
    expect((await chat()).status).toBe(200);
    await bench.startAgent(changes);
    expect((await bench.untilPhase("chat-0", "Ready")).status).toMatchObject({
      restarts: 0,
      pid: status?.pid,
    });
    await bench.deleteReplica("chat-0");
    await bench.untilGone("chat-0");
    // The gate closes the port on its own time.
    await vi.waitFor(() => expect(chat()).rejects.toThrow(), PATIENT);
  }),
);

test(
  "a service's key is asked for by the gate, and the server's own stays behind it",
  withBench(async (bench) => {
    const { changes, create } = withOmlx(bench);
    await bench.startAgent(changes);
    const { metadata } = await create("keyed-0", "tiny", { auth: { secretName: "keyed", key: "apiKey" } });
    const secret = { name: "keyed", namespace: metadata.namespace ?? "" };
    const made = await bench.client.create(SECRETS, {
      apiVersion: "v1",
      kind: "Secret",
      metadata: secret,
      data: { apiKey: Buffer.from("s3cret").toString("base64") },
    });
    expect(made.ok).toBe(true);
    const { status } = await bench.untilPhase("keyed-0", "Ready");
    const chat = (key: string) =>
      fetch(`http://${bench.address}:${status?.port}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}` },
        body: JSON.stringify({ messages: [{ role: "user", content: "Hi" }], max_tokens: 1 }),
      });
    expect((await chat("s3cret")).status).toBe(200);
    const own = readFileSync(join(bench.stateDir, "omlx", "key"), "utf8").trim();
    expect((await chat(own)).status).toBe(401);
  }),
);
