/** What others do to a replica's EndpointSlice: none of it keeps an engine from ending, or brings back one that hangs. */
import { expect, test } from "vitest";
import { ANNOTATION_ADDRESSES } from "../../src/api/group.ts";
import { ENDPOINT_SLICES } from "../../src/kube/kinds.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import type { Bench } from "../../test/replicas/bench.ts";
import { withBench } from "../../test/replicas/with-bench.ts";

const it = findLlamaServer() === undefined ? test.skip : test;
const HOUR_MS = 3_600_000;

/** As the controller does when the host's address family changes. */
async function replaceSlice(bench: Bench, name: string): Promise<void> {
  const slice = await bench.slice(name);
  if (slice === undefined) throw new Error("no slice");
  const { namespace, labels } = slice.metadata;
  await bench.client.remove(ENDPOINT_SLICES, { name, namespace });
  const empty = { ...slice, metadata: { name, namespace, labels }, endpoints: [], ports: [] };
  const made = await bench.client.create(ENDPOINT_SLICES, empty as typeof slice);
  expect(made.ok).toBe(true);
}

/** As the controller does with the slices of a host that it has lost. */
async function withdrawByController(bench: Bench, name: string): Promise<void> {
  const { metadata } = (await bench.slice(name)) ?? {};
  const ref = { name, namespace: metadata?.namespace };
  const value = { ready: false, serving: false, terminating: true };
  const patched = await bench.client.jsonPatch(ENDPOINT_SLICES, ref, [
    { op: "replace", path: "/endpoints/0/conditions", value },
  ]);
  expect(patched.ok).toBe(true);
}

it(
  "an engine whose EndpointSlice is replaced by an empty one while it drains ends all the same",
  withBench(async (bench) => {
    await bench.startAgent({ timings: { propagationMs: 2_000 } });
    await bench.createReplica("chat-0-sa");
    await bench.untilPhase("chat-0-sa", "Ready");
    await bench.patchSpec("chat-0-sa", { drain: { reason: "HostDrain" } });
    await bench.untilReason("chat-0-sa", "AwaitingPropagation");
    await replaceSlice(bench, "chat-0-sa");
    await bench.untilPhase("chat-0-sa", "Stopped");
  }),
);

it(
  "an engine whose EndpointSlice was emptied while no agent was there can be drained",
  withBench(async (bench) => {
    const first = await bench.startAgent();
    await bench.createReplica("chat-0-sb");
    await bench.untilPhase("chat-0-sb", "Ready");
    await first.end();
    await replaceSlice(bench, "chat-0-sb");
    await bench.patchSpec("chat-0-sb", { drain: { reason: "HostDrain" } });
    await bench.startAgent({ timings: { propagationMs: 100 } });
    await bench.untilPhase("chat-0-sb", "Stopped");
  }),
);

it(
  "an engine that was withdrawn and hangs is not announced again by a fresh agent",
  withBench(async (bench) => {
    const first = await bench.startAgent();
    await bench.createReplica("chat-0-sc", (spec) => {
      Object.assign(spec, { probes: { timeoutSeconds: 1 } });
    });
    const { status } = await bench.untilPhase("chat-0-sc", "Ready");
    await first.end();
    process.kill(status?.pid ?? 0, "SIGSTOP");
    await withdrawByController(bench, "chat-0-sc");
    await bench.startAgent({ timings: { liveProbeMs: 200, failedProbeMs: 100 } });
    await bench.untilAnnounced("chat-0-sc", true);
    // Announced only since it was replaced.
    expect((await bench.replica("chat-0-sc"))?.status?.lastExit?.reason).toBe("EngineHung");
  }),
);

it(
  "an engine that was withdrawn meanwhile is announced again as soon as it answers, after a restart and after a sleep",
  withBench(async (bench) => {
    const first = await bench.startAgent();
    await bench.createReplica("chat-0-sd");
    const { status } = await bench.untilPhase("chat-0-sd", "Ready");
    await first.end();
    await withdrawByController(bench, "chat-0-sd");
    const second = await bench.startAgent({ timings: { endpointRetryMs: 60_000, liveProbeMs: 60_000 } });
    await bench.untilAnnounced("chat-0-sd", true);
    await bench.untilPhase("chat-0-sd", "Ready");
    // Nothing is announced before the next list, so the withdrawal stays until then.
    second.runner.wake({ countedMs: 0 });
    await withdrawByController(bench, "chat-0-sd");
    await bench.untilReason("chat-0-sd", "AwaitingFirstList");
    second.relist();
    await bench.untilAnnounced("chat-0-sd", true);
    expect((await bench.replica("chat-0-sd"))?.status).toMatchObject({ pid: status?.pid, restarts: 0 });
  }),
);

it(
  "an endpoint that was refused for a while is announced as soon as its EndpointSlice allows the address",
  withBench(async (bench) => {
    let stillMs: number | undefined;
    await bench.startAgent({
      clock: {
        ...systemClock,
        monotonicMs: () => stillMs ?? systemClock.monotonicMs(),
        after: (delayMs, fire) => systemClock.after(stillMs === undefined ? delayMs : HOUR_MS, fire),
      },
    });
    await bench.createReplica("chat-0-se");
    await bench.untilPhase("chat-0-se", "Ready");
    const name = "chat-0-se";
    const { namespace } = (await bench.slice(name))?.metadata ?? {};
    const allow = async (addresses: string, isReady?: boolean) => {
      const path = `/metadata/annotations/${ANNOTATION_ADDRESSES.replace("/", "~1")}`;
      const withdrawn = { ready: false, serving: false, terminating: true };
      const patched = await bench.client.jsonPatch(ENDPOINT_SLICES, { name, namespace }, [
        { op: "replace", path, value: addresses },
        ...(isReady === false
          ? [{ op: "replace" as const, path: "/endpoints/0/conditions", value: withdrawn }]
          : []),
      ]);
      expect(patched.ok).toBe(true);
    };
    await allow("192.0.2.7/32", false);
    await bench.untilReason(name, "EndpointRefused");
    // The clock does not move: no attempt is due, so only the change of the slice makes one.
    stillMs = systemClock.monotonicMs();
    await allow("0.0.0.0/0,::/0");
    await bench.untilAnnounced(name, true);
    stillMs = undefined;
  }),
);
