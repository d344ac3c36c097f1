/** Admission on a real host's side: what is claimed is what the files and the processes say, and nothing is guessed. */
import { statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { writeGguf } from "../../local/demo/gguf-writer.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { writeTinyGguf } from "../../test/fixtures/tiny-gguf.ts";
import { withBench } from "../../test/replicas/with-bench.ts";

const it = findLlamaServer() === undefined ? test.skip : test;
const MIB = 1024 ** 2;
const GIB = 1024 ** 3;
type Spec = InferenceReplica["spec"];

/** As the controller makes it of a file that is on the host alone. */
function unsized(spec: Spec): void {
  Object.assign(spec, { memory: { claimBytes: 0 } });
}

function withoutPromptCache(spec: Spec): void {
  Object.assign(spec.template.engine, { promptCacheMiB: 0 });
}

it(
  "waits for memory with the figures, and starts when another engine gives some back",
  withBench(async (bench) => {
    await bench.startAgent({ memoryBudget: () => 150 * MIB });
    await bench.createReplica("chat-0-a", withoutPromptCache);
    const first = await bench.untilPhase("chat-0-a", "Ready");
    await bench.createReplica("chat-1-a", withoutPromptCache);
    const waiting = await bench.untilPhase("chat-1-a", "Waiting");
    expect(waiting.status).toMatchObject({ reason: "InsufficientMemory" });
    expect(waiting.status?.message).toMatch(/needs [\d.]+ MiB, [\d.]+ MiB of 150 MiB left/);
    // More than the 64 MiB of its spec: the engine's process and buffers are part of it.
    expect(first.status?.memory?.claimBytes).toBeGreaterThan(96 * MIB);
    await bench.deleteReplica("chat-0-a");
    await bench.untilPhase("chat-1-a", "Ready");
  }),
);

it(
  "claims for a file that the controller could not size what its header says, and reports that",
  withBench(async (bench) => {
    await bench.startAgent();
    await bench.createReplica("chat-0-c", unsized);
    const ready = await bench.untilPhase("chat-0-c", "Ready");
    expect(ready.status?.memory?.claimBytes).toBeGreaterThan(GIB);
    expect(ready.status?.model).toMatchObject({
      sizeBytes: statSync(bench.modelPath).size,
      gguf: { layerCount: 2, feedForwardLength: expect.any(Number), vocabularySize: expect.any(Number) },
    });
  }),
);

it(
  "never treats an unknown claim as zero: it waits with a reason, and starts once the file gives the size",
  withBench(async (bench) => {
    const path = join(bench.place.root, "poor.gguf");
    const architecture = { type: "string", value: "llama" } as const;
    await writeGguf(path, { metadata: new Map([["general.architecture", architecture]]), tensors: [] });
    await bench.startAgent({ timings: { outsideMs: 300 } });
    await bench.createReplica("chat-0-d", (spec) => {
      unsized(spec);
      Object.assign(spec.template.model, { source: path });
    });
    const waiting = await bench.untilPhase("chat-0-d", "Waiting");
    expect(waiting.status).toMatchObject({ reason: "ClaimUnknown" });
    expect(waiting.status?.message).toMatch(/does not state layers.*convert the model again/);
    expect(waiting.status?.memory).toBeUndefined();
    await writeTinyGguf(path);
    await bench.untilPhase("chat-0-d", "Ready");
  }),
);

it(
  "waits with the file's error when the file is truncated and its size is not known otherwise",
  withBench(async (bench) => {
    const path = join(bench.place.root, "cut.gguf");
    const tensor = { name: "token_embd.weight", dimensions: [1024], ggmlType: 0, sizeBytes: 100 };
    await writeGguf(path, { metadata: new Map(), tensors: [tensor] });
    await bench.startAgent();
    await bench.createReplica("chat-0-e", (spec) => {
      unsized(spec);
      Object.assign(spec.template.model, { source: path });
    });
    const waiting = await bench.untilPhase("chat-0-e", "Waiting");
    expect(waiting.status).toMatchObject({ reason: "GgufTruncated" });
    expect(waiting.status?.message).toMatch(/cut\.gguf: the file has .* its header describes .*; \w+/);
  }),
);

it(
  "reports what a process takes, and keeps others out when that is more than was claimed",
  withBench(async (bench) => {
    let taken: number | undefined;
    const agent = await bench.startAgent({
      memoryBudget: () => 400 * MIB,
      footprintBytes: async () => taken,
      timings: { footprintMs: 100, outsideMs: 300 },
    });
    await bench.createReplica("chat-0-f", withoutPromptCache);
    const first = await bench.untilPhase("chat-0-f", "Ready");
    expect(first.status?.memory?.footprintBytes).toBeUndefined();
    taken = 350 * MIB;
    const memory = { claimBytes: taken, footprintBytes: taken };
    await bench.untilReplica("chat-0-f", (found) => expect(found?.status?.memory).toEqual(memory));
    await bench.createReplica("chat-1-f", withoutPromptCache);
    const waiting = await bench.untilPhase("chat-1-f", "Waiting");
    expect(waiting.status?.message).toContain("50 MiB of 400 MiB left");
    // A fresh agent that cannot measure yet gives nothing of it away.
    taken = undefined;
    await agent.end();
    const second = await bench.startAgent({ memoryBudget: () => 400 * MIB, timings: { footprintMs: 100 } });
    expect(second.runner.claimedBytes()).toBe(350 * MIB);
    await bench.untilPhase("chat-1-f", "Ready");
  }),
);
