import { expect, test } from "vitest";
import type { ApiResult, FailureKind, KubeClient } from "../../src/kube/types.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import { readDevices } from "./devices.ts";

const podOf = (name: string): Pod => ({
  metadata: { name, namespace: "a" },
  spec: {
    containers: [],
    nodeName: "gpu-1",
    resourceClaims: [{ name: "gpus", resourceClaimName: `${name}-gpus` }],
  },
});
const results = [{ request: "gpus", device: "gpu-0", driver: "gpu.nvidia.com" }];
const allocated = { ok: true, value: { status: { allocation: { devices: { results } } } } };
const failure = (kind: FailureKind) => ({ ok: false, error: { kind, status: 0, reason: "", message: "" } });

/** A client that answers each read of a claim so, and the names that were read. */
function clientOf(answer: object) {
  const reads: string[] = [];
  const get: KubeClient["get"] = async <T>(_: unknown, { name }: { name: string }) => {
    reads.push(name);
    return answer as ApiResult<T>;
  };
  return { client: { get } as KubeClient, reads };
}

test("devices are named in the order of the pods' names", async () => {
  const pods = ["chat-2", "chat-4", "chat-1", "chat-3"].map(podOf);
  const expected = ["chat-1", "chat-2", "chat-3"].map(
    (name) => `${name} on gpu-1 (gpus: gpu-0 of gpu.nvidia.com)`,
  );
  const { client } = clientOf(allocated);
  expect(await readDevices(client, pods)).toEqual({ devices: expected, flavors: [] });
  expect(await readDevices(client, pods.toReversed())).toEqual({ devices: expected, flavors: [] });
});

test("the allocation of a prioritized list names the flavor that kube-scheduler chose", async () => {
  const chosen = (flavor: string) => ({
    ok: true,
    value: {
      status: { allocation: { devices: { results: [{ ...results[0], request: `flavor/${flavor}` }] } } },
    },
  });
  expect(await readDevices(clientOf(chosen("l40s")).client, [podOf("a"), podOf("b")])).toEqual({
    devices: ["a", "b"].map((name) => `${name} on gpu-1 (flavor/l40s: gpu-0 of gpu.nvidia.com)`),
    flavors: ["l40s"],
  });
});

test.each<[string, object, number]>([
  ["an allocation", allocated, 1],
  ["no allocation", { ok: true, value: {} }, 1],
  ["a claim that is gone", failure("notFound"), 1],
  ["claims that may not be read yet", failure("forbidden"), 2],
  ["an API server that does not answer", failure("unavailable"), 2],
])("two passes with the same pod, and %s", async (_, answer, expected) => {
  const { client, reads } = clientOf(answer);
  const pod = podOf("chat");
  const first = await readDevices(client, [pod]);
  expect(await readDevices(client, [pod])).toEqual(first);
  expect(reads).toHaveLength(expected);
  await readDevices(client, [{ ...pod }]);
  expect(reads).toHaveLength(expected + 1);
});
