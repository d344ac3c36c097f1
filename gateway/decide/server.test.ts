/** The decision service behind the real Envoy, without a cluster: what official clients get. */
import { once } from "node:events";
import { request } from "node:http";
import path from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, it } from "vitest";
import { inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import { describeUnless } from "../../test/bed/describe-unless.ts";
import { whyNoEnvoy } from "../../test/bed/envoy.ts";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { type Engine, type EnvoyBed, startEngine, startEnvoyBed } from "../envoy/run/fixtures/envoy-bed.ts";
import { anonymous } from "../keys/authenticator.ts";
import { createHeldBodies } from "../limits/bodies.ts";
import type { Limits } from "../limits/limits.ts";
import { Models } from "../models/models.ts";
import { ModelQueues } from "../queue/queues.ts";
import { Requests } from "../requests.ts";
import { manualClock } from "../testing/manual-clock.ts";
import { Decider } from "./decide.ts";
import { serveDecisions } from "./server.ts";

const SPEC = { modelRef: "m", runtime: "llamacpp" };
const lora = {
  modelRefs: [
    { name: "m", role: "main" },
    { name: "style", role: "lora" },
  ],
};

describeUnless(whyNoEnvoy, "the decision service behind Envoy", () => {
  const lifetime = new AbortController();
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let bed: EnvoyBed;
  let engine: Engine;

  beforeAll(async () => {
    folder = await temporaryFolder();
    engine = await startEngine(() => ({ headers: { "content-type": "application/json" }, body: "{}" }));
    const socket = path.join(folder.path, "own.sock");
    await serveModels(socket, engine, lifetime.signal);
    const clusters = ["team/chat", "other/chat", "team/tuned"].map((name) => ({ name, endpoints: [engine] }));
    bed = await startEnvoyBed({ decideSocket: socket, clusters });
  });

  afterAll(async () => {
    await bed?.[Symbol.asyncDispose]();
    lifetime.abort();
    await engine?.[Symbol.asyncDispose]();
    await folder?.[Symbol.asyncDispose]();
  });

  it("lists each model once, and retrieves it by every name of it through the official clients", async () => {
    const baseURL = `http://127.0.0.1:${bed.port}`;
    const openai = new OpenAI({ baseURL: `${baseURL}/v1`, apiKey: "x", maxRetries: 0 });
    const anthropic = new Anthropic({ baseURL, apiKey: "x", maxRetries: 0 });
    const { data } = await openai.models.list();
    const listed = data as unknown as readonly { id: string; aliases: readonly string[]; service: string }[];
    expect(listed.map(({ id, aliases, service }) => [id, aliases, service])).toEqual([
      ["other/chat", [], "other/chat"],
      ["chat", ["team/chat", "gpt-4o", "Qwen/Qwen3:8b@q4"], "team/chat"],
      ["tuned", ["team/tuned"], "team/tuned"],
      ["style", [], "team/tuned"],
    ]);
    for (const { id, aliases, service } of listed)
      for (const name of [id, ...aliases]) {
        expect(await openai.models.retrieve(name)).toMatchObject({ id: name, service });
        expect(await anthropic.models.retrieve(name)).toMatchObject({ id: name, service });
        expect((await bed.call("/v1/chat/completions", { body: { model: name } })).status).toBe(200);
      }
    const own = new OpenAI({ baseURL: `${baseURL}/s/team/chat/v1`, apiKey: "x", maxRetries: 0 });
    expect(await own.models.retrieve("team/chat")).toMatchObject({ id: "team/chat" });
    await expect(own.models.retrieve("other/chat")).rejects.toMatchObject({ code: "model_not_found" });
  });

  it.each([
    ["GET", "/v1/models/team%2Fnone", 404, "model_not_found"],
    ["GET", "/v1/models/%zz", 404, "model_not_found"],
    ["GET", "/v1/models/..%2f..%2fhealthz", 404, "model_not_found"],
    ["POST", "/v1/models%2fchat", 400, "bad_path"],
    ["POST", "/v1%2fchat/completions", 400, "bad_path"],
    ["POST", "/s/team%2fchat/v1/chat/completions", 400, "bad_path"],
    ["POST", "/s/team/chat/v1/chat%2Fcompletions", 400, "bad_path"],
    ["POST", "/s/team/chat%5Cv1/completions", 400, "bad_path"],
  ])(
    "answers %s %s, where an encoded slash is part of no name, itself",
    async (method, where, status, code) => {
      engine.received.length = 0;
      const { status: seen, text } = await bed.call(where, { method });
      expect([seen, JSON.parse(text).error.code]).toEqual([status, code]);
      expect(engine.received).toEqual([]);
    },
  );

  it.each([
    ["/v1/chat/completions", 200],
    ["/s/team/chat/v1/messages", 200],
    ["/v1/models", 200],
    ["/v1/nothing", 404],
  ])("reads headers up to 60 KiB for %s, and answers with an identifier", async (where, status) => {
    for (const size of [0, 17, 40, 59]) {
      // Node would answer an expectation itself, so it shows that the decision service does.
      const headers: Record<string, string> = {
        "content-type": "application/json",
        cookie: "c".repeat(size * 1024),
      };
      if (status === 404) headers.expect = "all";
      const method = where === "/v1/models" ? "GET" : "POST";
      const seen = await bed.call(where, {
        method,
        headers,
        body: method === "GET" ? "" : { model: "chat" },
      });
      expect([size, seen.status]).toEqual([size, status]);
      expect(seen.headers["x-request-id"]).toMatch(/^[0-9a-f-]{36}$/);
      if (status === 404) expect(seen.text).toContain("unknown_path");
    }
  });

  it.each([
    ...["/rerank", "/v1/reranking", "/v1/responses/input_tokens", "/tokenize", "/v1/chat/completions"],
    ...["/completion", "/infill", "/embeddings", "/apply-template", "/detokenize"],
  ])("passes %s to llama-server", async (where) => {
    engine.received.length = 0;
    for (const [at, body] of [
      [where, { model: "chat" }],
      [`/s/team/chat${where}`, {}],
    ] as const)
      expect((await bed.call(at, { body })).status).toBe(200);
    expect(engine.received.map((one) => one.path)).toEqual([where, where]);
  });

  it.each([
    ...["/props", "/lora-adapters", "/slots/0", "/v1/chat/completions/control", "/models/load", "/tools"],
    ...["/api/tags", "/pooling", "/v1/audio/speech"],
  ])("does not pass %s to llama-server", async (where) => {
    engine.received.length = 0;
    for (const [at, body] of [
      [where, { model: "chat" }],
      [`/s/team/chat${where}`, {}],
    ] as const)
      expect((await bed.call(at, { body })).status).toBe(404);
    expect(engine.received).toEqual([]);
  });
});

it("closes the connection of a question that a repeated one has replaced", async () => {
  await using folder = await temporaryFolder();
  const lifetime = new AbortController();
  const socketPath = path.join(folder.path, "own.sock");
  const decider = Object.assign(Object.create(Decider.prototype), { decide: async () => ({ at: "left" }) });
  const listing = {
    models: new Models(),
    authenticate: async () => ({ at: "authenticated", caller: anonymous }) as const,
  };
  const more = { notReady: () => undefined, whenOpen: async () => {}, onDecision: () => {}, log: quietLog };
  await serveDecisions({ socket: socketPath, decider, listing, ...more, signal: lifetime.signal });
  const question = request({ socketPath, path: "/decide/v1/chat/completions", method: "POST" }).end();
  await expect(once(question, "response")).rejects.toThrow("socket hang up");
  lifetime.abort();
});

/** Three services on one engine. `other/chat` is younger than `team/chat`, which has the name. */
async function serveModels(socket: string, engine: Engine, signal: AbortSignal): Promise<void> {
  const clock = manualClock(Date.parse("2026-11-01T12:00:00Z"));
  const models = new Models();
  const queues = new ModelQueues(models, clock);
  const add = (namespace: string, name: string, year: number, spec: object = {}): void => {
    const metadata = { namespace, name, creationTimestamp: `${year}-01-01T00:00:00Z` };
    const service = inferenceServiceSchema.parse({ metadata, spec: { ...SPEC, parallelSlots: 64, ...spec } });
    models.setService(`${namespace}/${name}`, service);
    const labels = { "metalbridge.dev/service": name };
    const slice = {
      metadata: { namespace, name, labels },
      addressType: "IPv4" as const,
      endpoints: [{ addresses: [engine.address], conditions: { ready: true } }],
      ports: [{ name: "http", port: engine.port }],
    };
    models.setSlice(`${namespace}/${name}`, slice, undefined);
    queues.setAccepted(`${namespace}/${name}`, [`${engine.address}:${engine.port}`]);
  };
  const modelNames = [{ name: "gpt-4o" }, { name: "Qwen/Qwen3:8b@q4" }];
  add("team", "chat", 2024, { endpoint: { modelNames } });
  add("other", "chat", 2025);
  add("team", "tuned", 2025, { ...lora, modelRef: undefined });
  const authenticate = async () => ({ at: "authenticated", caller: anonymous }) as const;
  const limits: Limits = { admit: async () => ({ at: "admitted" }), answered: () => {}, ended: () => {} };
  const bodies = createHeldBodies(1 << 20);
  const decider = new Decider({
    models,
    queues,
    requests: new Requests({
      queues,
      limits,
      bodies,
      onAdmitted: () => {},
      clock,
      signal: new AbortController().signal,
    }),
    authenticate,
    bodies,
    engineKey: async () => undefined,
    userOf: () => undefined,
    upstreamTls: { hasTrust: false, hasCertificate: false },
    hasKeyPair: () => true,
    clock,
    random: () => 0,
  });
  await serveDecisions({
    socket,
    decider,
    listing: { models, authenticate },
    notReady: () => undefined,
    whenOpen: async () => {},
    onDecision: () => {},
    log: quietLog,
    signal,
  });
}
