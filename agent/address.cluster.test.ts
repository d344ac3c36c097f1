/** A whole agent on a machine with two addresses: which of them its engine is served on, and when it has to leave it. */
import { expect, test, vi } from "vitest";
import type { EndpointSlice } from "../src/kube/objects.ts";
import { openNetwork, whyNoNetwork } from "../test/bed/network.ts";
import { sharedCluster } from "../test/cluster/cluster.ts";
import { findLlamaServer } from "../test/fixtures/llama-server.ts";
import type { Bench } from "../test/replicas/bench.ts";
import { withBench } from "../test/replicas/with-bench.ts";
import { startAgent } from "./fixtures/agent.ts";
import { routedAddress } from "./host/routed-address.ts";

const llamaServer = findLlamaServer();
const route = await routedAddress("https://127.0.0.1");
const it =
  llamaServer === undefined || route === undefined || whyNoNetwork() !== undefined ? test.skip : test;
const patiently = { timeout: 60_000, interval: 20 };
/** Longer than an engine on another address than the host's is left alone. */
const MOVED_MS = 3_500;

it(
  "an engine stays on its address while that is up and allowed, whatever the route, and leaves it when it is not (needs a route)",
  withBench(async (bench) => {
    const network = await openNetwork(["station"]);
    const first = network.gateway;
    const { kubectl, objects } = sharedCluster();
    const { hostName } = bench.place;
    const host = async (addresses: readonly string[]): Promise<void> => {
      const object = { apiVersion: "metalbridge.dev/v1alpha1", kind: "Host", metadata: { name: hostName } };
      await objects.apply({ ...object, spec: { addresses } });
    };
    try {
      await host([first]);
      await using agent = await startOn(bench);
      await bench.createReplica("chat-0-ad");
      const { status } = await bench.untilPhase("chat-0-ad", "Ready");
      expect(await endpointOf(bench)).toEqual([first, true]);
      await host([first, route ?? ""]);
      const from = performance.now();
      await vi.waitFor(async () => {
        expect((await bench.replica("chat-0-ad"))?.status?.pid).toBe(status?.pid);
        expect(await endpointOf(bench)).toEqual([first, true]);
        expect(performance.now() - from).toBeGreaterThan(MOVED_MS);
      }, patiently);
      await agent.stop();
      await using next = await startOn(bench);
      await vi.waitFor(async () => expect(await next.ask("/readyz")).toBe("200 ok\n"), patiently);
      expect((await bench.untilPhase("chat-0-ad", "Ready")).status).toMatchObject({
        pid: status?.pid,
        restarts: 0,
      });
      await network[Symbol.asyncDispose]();
      await untilEndpoint(bench, [route, true]);
      expect((await bench.untilPhase("chat-0-ad", "Ready")).status?.pid).not.toBe(status?.pid);
      await host([first]);
      const command = await objects.until("", `hosts/${hostName}`, (host) => {
        const ready = host.status.conditions.find(({ type }: { type: string }) => type === "Ready");
        expect(ready).toMatchObject({ status: "False", reason: "AddressNotRegistered" });
        expect(ready.message).toContain(`this machine has ${route}`);
        return String(ready.message.match(/kubectl patch (.*)$/)?.[1]);
      });
      // As a shell would take it apart.
      await kubectl(["patch", ...command.split(" ").map((word) => word.replace(/^'|'$/g, ""))]);
      await untilEndpoint(bench, [route, true]);
      await bench.deleteReplica("chat-0-ad");
      await bench.untilGone("chat-0-ad");
    } finally {
      await network[Symbol.asyncDispose]();
      await objects.remove("", `hosts/${hostName}`).catch(() => undefined);
    }
  }),
);

function startOn({ place, stateDir }: Bench) {
  return startAgent({
    kubeconfig: place.kubeconfig,
    hostName: place.hostName,
    stateDir,
    keepState: true,
    addresses: [],
    modelRoots: [place.root],
    llamaServer: [llamaServer ?? ""],
    memory: { budget: "8Gi" },
    disk: { reserve: 0 },
  });
}

async function endpointOf(bench: Bench): Promise<readonly unknown[]> {
  return endpointIn(await bench.slice("chat-0-ad"));
}

function untilEndpoint(bench: Bench, expected: readonly unknown[]): Promise<void> {
  return bench.untilSlice("chat-0-ad", (slice) => expect(endpointIn(slice)).toEqual(expected));
}

function endpointIn(slice: EndpointSlice | undefined): readonly unknown[] {
  const [endpoint] = slice?.endpoints ?? [];
  return [endpoint?.addresses[0], endpoint?.conditions?.ready];
}
