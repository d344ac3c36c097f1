/**
 * Files that change at their source: between the header and the download, and while a service runs.
 * CPU: a whole system, and a download for each change.
 */
import { readFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { testAddress } from "../../agent/fixtures/agent.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import { sha256Hex } from "../../src/util/hash.ts";
import { model, serviceAnywhere } from "../bed/manifests.ts";
import type { Untyped } from "../bed/objects.ts";
import { startFleet, type TestFleet } from "../bed/test-fleet.ts";
import { until } from "../bed/until.ts";
import { runVerb } from "../cli/program.ts";
import { type PrivateCluster, startCluster } from "../cluster/cluster.ts";
import { findLlamaServer } from "../fixtures/llama-server.ts";
import { type Origin, sendFile, sha256, startOrigin } from "../fixtures/origin.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { serveOther, type TwoFacedOrigin } from "./two-faced-origin.ts";

const MIB = 1024 ** 2;
describe.skipIf(findLlamaServer() === undefined)("a file that differs from the header read earlier", () => {
  let cluster: PrivateCluster;
  let origin: TwoFacedOrigin;
  let changing: Origin;
  let farm: TestFleet;
  let small: Buffer;
  let large: Buffer;
  let pinned: Buffer;

  beforeAll(async () => {
    cluster = await startCluster();
    const write = async (name: string, options: object) => {
      const file = path.join(cluster.dir, name);
      await writeTinyGguf(file, { sparse: true, ...options });
      return readFileSync(file);
    };
    small = await write("small.gguf", {});
    large = await write("large.gguf", { layers: 32, embeddingSize: 512, feedForwardSize: 1024 });
    pinned = await write("pinned.gguf", { seed: 7 });
    expect(large.length - small.length).toBeGreaterThan(200 * MIB);
    origin = await serveOther({
      "/small.gguf": { header: small, body: small },
      "/grows.gguf": { header: small, body: large },
      "/shrinks.gguf": { header: large, body: small },
      "/pinned.gguf": { header: pinned, body: large },
    });
    changing = await startOrigin();
    const config = { disk: { reserve: 0 }, sources: { allowLoopback: true } };
    farm = await startFleet({
      kubeconfig: cluster.kubeconfig,
      address: testAddress(),
      agents: [{ config }],
      controllerArgs: ["--allow-loopback", "--source-check-seconds", "1"],
    });
    await hostUntil(({ memory }) => expect(memory?.leftBytes).toBeGreaterThan(0));
  });

  afterAll(async () => {
    await farm?.[Symbol.asyncDispose]();
    await origin?.[Symbol.asyncDispose]();
    await changing?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  });

  const host = () => farm.objects.read(HOSTS, farm.hostName);
  const hostUntil = (check: (status: Untyped) => unknown) =>
    farm.objects.until("", `mbhost/${farm.hostName}`, ({ status }) => check(status ?? {}));
  const replicaOf = async (service: string) =>
    (await farm.objects.list(INFERENCE_REPLICAS, `metalbridge.dev/service=${service}`))[0];

  async function apply(name: string, route: string, spec: object = {}): Promise<void> {
    const source = route.startsWith("http") ? route : origin.url + route;
    await farm.objects.apply(model(name, source, spec), serviceAnywhere(name));
  }

  const untilStatus = (name: string, status: object) =>
    farm.objects.until(
      "default",
      "irep",
      ([replica]) => {
        expect(replica?.status, farm.agent().log().slice(-2_000)).toMatchObject(status);
        return replica;
      },
      { labelSelector: `metalbridge.dev/service=${name}` },
    );

  async function remove(name: string): Promise<void> {
    await farm.objects.remove("default", `isvc/${name}`, `mdl/${name}`);
    await until(async () => expect(await replicaOf(name)).toBeUndefined());
  }

  /** Limits what engines may use together; the Host says what is left of it. */
  async function budget(bytes: number | null): Promise<void> {
    const memory = { gpuBudget: bytes === null ? null : String(bytes) };
    await farm.objects.patch("", `mbhost/${farm.hostName}`, { spec: { memory } });
    if (bytes === null) return;
    await hostUntil(({ memory }) => expect(memory.leftBytes + memory.claimedBytes).toBe(bytes));
  }

  it("admits by the larger need, corrects the controller's claim, and gives all of it back", async () => {
    const free = (await host()).status.memory;
    await apply("grows", "/grows.gguf");
    const ready = await untilStatus("grows", { phase: "Ready" });
    const { claimBytes } = ready.status.memory;
    expect(claimBytes).toBeGreaterThan(large.length);
    expect(ready.status.model).toMatchObject({ sizeBytes: large.length, gguf: { layerCount: 32 } });
    expect((await farm.objects.read(MODELS, "grows")).status).toMatchObject({ sizeBytes: small.length });

    // What the controller counts is no less than what its agent holds.
    await until(async () => {
      const { spec, status } = await replicaOf("grows");
      expect(spec.memory.claimBytes).toBeGreaterThan(large.length);
      expect(spec.memory.weightsBytes).toBeGreaterThanOrEqual(large.length);
      expect(status.memory.claimBytes).toBeGreaterThanOrEqual(spec.memory.claimBytes);
      expect(status).toMatchObject({ phase: "Ready", pid: ready.status.pid });
    });

    // What is left on the Host falls by the claim and comes back when the replica is gone.
    await until(async () => {
      const held = (await replicaOf("grows")).status.memory.claimBytes;
      const { memory } = (await host()).status;
      expect(memory.claimedBytes).toBe(held);
      expect(memory.leftBytes).toBe(free.leftBytes - held);
      expect(memory.left).toMatch(/^[\d.]+ [GM]iB of [\d.]+ GiB$/);
      expect(memory.left).not.toBe(free.left);
    });
    await remove("grows");
    await hostUntil(({ memory: { leftBytes, left, claimedBytes } }) =>
      expect({ leftBytes, left, claimedBytes }).toEqual({
        leftBytes: free.leftBytes,
        left: free.left,
        claimedBytes: 0,
      }),
    );
  });

  it("refuses with the figures what does not fit, starts nothing of it, and others still find the room", async () => {
    await budget(300 * MIB);
    await apply("grows", "/grows.gguf");
    const { status, spec } = await untilStatus("grows", { phase: "Waiting", reason: "InsufficientMemory" });
    expect(status.message).toMatch(/needs [\d.]+ MiB, 300 MiB of 300 MiB left on this host/);
    expect(status).not.toHaveProperty("pid");
    expect(status).not.toHaveProperty("memory");
    expect(status.restarts ?? 0).toBe(0);
    const needs = Number(/needs ([\d.]+) MiB/.exec(status.message)?.[1]) * MIB;
    expect(needs).toBeGreaterThan(large.length);
    // A claim that fits on no host would block all other services.
    expect(spec.memory.claimBytes).toBeLessThan(needs);
    await apply("other", "/small.gguf");
    await untilStatus("other", { phase: "Ready" });
    await untilStatus("grows", { phase: "Waiting", reason: "InsufficientMemory" });

    // With the room it needs it starts, on the whole of its claim.
    await remove("other");
    await budget(1024 * MIB);
    const ready = await untilStatus("grows", { phase: "Ready" });
    expect(ready.status.memory.claimBytes).toBeGreaterThan(large.length);
    await remove("grows");
    await budget(null);
  });

  it("keeps the controller's claim where less is delivered", async () => {
    await apply("shrinks", "/shrinks.gguf");
    const ready = await untilStatus("shrinks", { phase: "Ready" });
    expect(ready.status.model.sizeBytes).toBe(small.length);
    expect(ready.spec.memory.claimBytes).toBeGreaterThan(large.length * 0.9);
    expect(ready.status.memory.claimBytes).toBeGreaterThanOrEqual(ready.spec.memory.claimBytes);
    await remove("shrinks");
  });

  it("refuses another file than the one whose checksum the Model names", async () => {
    const sha256 = sha256Hex(pinned);
    await apply("pinned", "/pinned.gguf", { sha256 });
    const failed = await untilStatus("pinned", { phase: "Failed", reason: "ChecksumMismatch" });
    expect(failed.status.message).toContain(sha256);
    expect(failed.status).not.toHaveProperty("pid");
    expect(failed.status).not.toHaveProperty("memory");
    // Nor does its Host reserve memory for it, once it has reported that the last engine stopped.
    await hostUntil(({ memory }) => expect(memory.claimedBytes).toBe(0));
    await remove("pinned");
  });

  it("rolls out what a watched source has new, never swaps it under a revision, and goes back without a download", async () => {
    const [a, b, c] = await Promise.all(
      [21, 22, 23].map(async (seed) => {
        const file = path.join(cluster.dir, `seed-${seed}.gguf`);
        await writeTinyGguf(file, { seed });
        return readFileSync(file);
      }),
    );
    if (a === undefined || b === undefined || c === undefined) throw new Error("no files");
    const serve = (content: Buffer) => changing.serve("/m.gguf", content);
    const downloads = () =>
      changing.seen.filter(({ method, headers }) => method === "GET" && !/-\d/.test(headers.range ?? ""))
        .length;
    const model = async () => (await farm.objects.read(MODELS, "follows")).status;
    const service = async () => farm.objects.read(INFERENCE_SERVICES, "follows");
    const serves = (content: Buffer) =>
      farm.objects.until("default", "irep", (replicas) => {
        expect(replicas, farm.agent().log().slice(-2_000)).toHaveLength(1);
        const [{ spec, status }] = replicas;
        expect(status).toMatchObject({ phase: "Ready", model: { sha256: sha256(content) } });
        return { status, changeMarker: spec.template.model.changeMarker };
      });
    /** The marker that the controller has noted in the place of another. */
    const noted = (before: string) =>
      farm.objects.until("default", "mdl/follows", ({ status: { pinned } }) => {
        expect(pinned.changeMarker).not.toBe(before);
        return pinned.changeMarker;
      });

    serve(a);
    await apply("follows", `${changing.url}/m.gguf`, { refreshPolicy: "OnChange" });
    const first = await serves(a);
    expect(first.changeMarker).toBe((await model()).pinned.changeMarker);

    serve(b);
    const second = await serves(b);
    expect(second.changeMarker).toBe(await noted(first.changeMarker));
    expect(downloads()).toBe(2);
    const changed = {
      reason: "SourceContentChanged",
      message: expect.stringContaining("the source has other content"),
    };
    await farm.objects.until("default", "events", (events) =>
      expect(events).toContainEqual(expect.objectContaining(changed)),
    );
    const shown = await farm.kubectl(["get", "mdl", "follows", "-n", "default"]);
    expect(shown).toMatch(/REVISION +CHECKED +CHANGED/);
    expect(shown).toContain(second.changeMarker?.slice(0, 12));

    // Back: the host still has it, and the source does not.
    const cli = (...args: string[]) =>
      runVerb(["rollout", ...args, "-n", "default"], { kubeconfig: cluster.kubeconfig });
    expect((await cli("history", "follows")).stdout).toMatch(/Model follows content \S+ -> \S+/);
    const undone = await cli("undo", "follows");
    expect(undone).toMatchObject({ code: 0, stdout: expect.stringContaining("modelRevision") });
    expect(await serves(a)).toMatchObject({ changeMarker: first.changeMarker });
    expect((await service()).spec.modelRevision).toBe(first.changeMarker);
    expect(downloads()).toBe(2);

    // What the source has meanwhile is no business of this revision, also when its agent and engine restart.
    serve(c);
    const third = await noted(second.changeMarker);
    const { pid } = (await serves(a)).status;
    await farm.agent().kill("SIGKILL");
    process.kill(pid, "SIGKILL");
    farm.restartAgent();
    await until(async () => expect((await serves(a)).status.pid).not.toBe(pid));
    expect(downloads()).toBe(2);

    await farm.objects.patch("default", "isvc/follows", { spec: { modelRevision: null } });
    expect(await serves(c)).toMatchObject({ changeMarker: third });
    expect(downloads()).toBe(3);

    // Another answer to each request is never rolled out; a source that goes away stops nothing either.
    const reported = (reason: string) =>
      farm.objects.until("default", "mdl/follows", ({ status: { conditions, phase } }) => {
        const check = conditions.find(({ type }: { type: string }) => type === "SourceChecked");
        expect({ phase, reason: check?.reason }).toEqual({ phase: "Ready", reason });
      });
    let requests = 0;
    changing.on("/m.gguf", (request, response) => {
      requests += 1;
      sendFile(request, response, c, `"${requests}"`);
    });
    await reported("SourceUnstable");
    changing.on("/m.gguf", (_, response) => void response.writeHead(404).end());
    await reported("SourceNotFound");
    expect(await serves(c)).toMatchObject({ changeMarker: third });
    const revision = (await service()).status?.updateRevision;
    serve(a);
    await farm.objects.until("default", "isvc/follows", ({ status }) =>
      expect(status?.updateRevision).not.toBe(revision),
    );
    expect(await serves(a)).toMatchObject({ changeMarker: first.changeMarker });
    expect(downloads()).toBe(3);
    await remove("follows");
  });
});
