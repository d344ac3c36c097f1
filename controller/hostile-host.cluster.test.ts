/** A host that renews its Lease and does not do what the cluster asks: deleted replicas, and a loss declared by force. */
import { beforeEach, expect, test } from "vitest";
import { getCondition } from "../src/api/conditions.ts";
import { ANNOTATION_LOST } from "../src/api/group.ts";
import type { Host } from "../src/api/host.ts";
import type { EndpointSlice } from "../src/kube/objects.ts";
import { inferenceService } from "../test/controller/bench.ts";
import { oneOnce } from "../test/controller/once.ts";

const bench = oneOnce();
beforeEach(() => bench().agents({ honest: {}, hostile: {} }));

async function condition(type: string): Promise<string | undefined> {
  const { status }: Host = await bench().objects.get("", "mbhost/hostile");
  const found = getCondition(status?.conditions, type);
  return found && `${found.status} ${found.reason}`;
}

const sliceHosts = async (ns: string): Promise<(string | undefined)[]> =>
  (await bench().objects.get(ns, "endpointslices")).items.map(
    ({ metadata }: EndpointSlice) => metadata.labels?.["metalbridge.dev/host"],
  );

/** A replica on a host that from then on does nothing but renew its Lease. */
async function serve(ns: string): Promise<void> {
  await bench().namespace(ns);
  await bench().apply(inferenceService(ns, "chat", { placement: { hosts: ["hostile"] } }));
  expect((await bench().service(ns, "chat")).status?.phase).toBe("Ready");
  bench().agent("hostile").fallSilent();
}

/** Time passes, in which the hostile host renews too. */
async function pass(seconds: number): Promise<void> {
  for (let left = seconds; left > 0; left -= 15) {
    await bench().agent("hostile").renew();
    await bench().advance(Math.min(left, 15) * 1_000);
  }
}

test("a deleted replica that its reachable host keeps is removed with its slice a minute after its drain", async () => {
  await serve("kept");
  const [replica] = await bench().replicas("kept");
  await bench().objects.startRemoval("kept", "isvc/chat");
  await bench().settle();
  const { drainSeconds = 0 } = replica?.spec ?? {};
  await pass(drainSeconds + 59);
  expect(await condition("Reachable")).toBe("True HostReachable");
  expect((await bench().replicas("kept"))[0]?.metadata.deletionTimestamp).toBeDefined();
  await pass(2);
  expect(await bench().replicas("kept")).toEqual([]);
  expect(await sliceHosts("kept")).toEqual([]);
  for (const name of ["hostile", replica?.metadata.name ?? ""])
    expect(bench().events(name).join()).toContain("Warning DeletionForced");
});

test("a host that is declared lost by force loses its replicas while it renews its Lease, until the mark is removed", async () => {
  await serve("forced");
  await bench().patch("forced", "isvc/chat", { spec: { placement: { hosts: ["hostile", "honest"] } } });
  const declare = (lost: string | null) =>
    bench().patch("", "mbhost/hostile", { metadata: { annotations: { [ANNOTATION_LOST]: lost } } });
  await declare("force 2026-01-01T00:00:00Z");
  expect(await condition("Lost")).toBe("True HostLost");
  expect((await bench().service("forced", "chat")).status?.phase).toBe("Ready");
  expect(await sliceHosts("forced")).toEqual(["honest"]);

  await pass(20);
  expect(await condition("Lost")).toBe("True HostLost");
  await declare(null);
  expect(await condition("Reachable")).toBe("True HostReachable");
  expect(await condition("Lost")).toBe("False NotLost");
});
