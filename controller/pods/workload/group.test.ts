/** What the hook of a worker does in a real shell, groups on a flavor, and groups that are refused. */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { groupName } from "../../../src/api/names.ts";
import { waitForLeaderOf } from "./drain.ts";
import { inputOf, type WorkloadOptions } from "./fixtures/workload-input.ts";
import { withStage } from "./flavors/build.ts";
import { buildGroup } from "./group.ts";

function build(options: Partial<WorkloadOptions>) {
  const model = { source: "hf://org/m/m.gguf", hardware: { accelerator: "cpu" } };
  const weights = { claimName: "cache", folder: "k", file: "m.gguf" };
  return buildGroup(inputOf({ service: { group: { size: 2 } }, model, weights, replicas: 1, ...options }));
}

const cuda = (count: number) => ({
  source: "hf://org/m",
  format: "safetensors",
  hardware: { accelerator: "cuda", gpu: { count } },
});

test.each<[string, Partial<WorkloadOptions>, string, RegExp]>([
  ["a runtime that cannot", { runtime: "tgi", model: cuda(1) }, "GroupUnsupported", /tgi cannot serve/],
  ["the pinned image of llama.cpp, which has no RPC", {}, "ImageUnknown", /built without RPC/],
  [
    "shards that do not divide the GPUs",
    {
      runtime: "vllm",
      model: cuda(4),
      service: { group: { size: 2 }, vllmConfig: { tensorParallelSize: 3 } },
    },
    "GPURequestInvalid",
    /3 tensor shards do not divide the 8 GPUs of a group of 2 pods/,
  ],
])("refused: %s", (_, options, code, says) => {
  expect(() => build(options)).toThrow(
    expect.objectContaining({ code, message: expect.stringMatching(says) }),
  );
});

test("all pods of a group have the labels, limits, sizes and claims of its flavor", () => {
  const input = inputOf({
    runtime: "vllm",
    service: { group: { size: 2 } },
    model: cuda(8),
    replicas: 1,
  });
  const flavor = {
    name: "h100",
    nodeSelector: { gpu: "h100" },
    limits: { "nvidia.com/gpu": 4, memory: "64Gi" },
    params: { tensorParallelSize: 2 },
    deviceClass: "gpu.example.com",
  };
  const built = (by: "single" | "devices") => {
    const flavored = withStage(input.service, input.model, { by, flavors: [flavor] });
    const { group, claimTemplate } = buildGroup({ ...input, ...flavored });
    const { leaderTemplate, workerTemplate } = group.spec.leaderWorkerTemplate;
    return { claimTemplate, specs: [leaderTemplate.spec, workerTemplate.spec] };
  };
  const byLabels = built("single");
  expect(byLabels.claimTemplate).toBeUndefined();
  for (const { nodeSelector, containers } of byLabels.specs) {
    expect(nodeSelector).toEqual({ gpu: "h100" });
    expect(containers[0]?.resources?.limits).toEqual({ "nvidia.com/gpu": "4", memory: "64Gi" });
    // 8 GPUs of the group in shards of 2.
    expect(containers[0]?.args?.join(" ")).toContain("--tensor-parallel-size 2 --pipeline-parallel-size 4");
  }
  const { claimTemplate, specs } = built("devices");
  expect(claimTemplate?.spec.spec.devices.requests[0]?.firstAvailable).toMatchObject([
    { name: "h100", count: 4 },
  ]);
  for (const { resourceClaims, containers } of specs) {
    expect(resourceClaims).toEqual([
      { name: "flavor", resourceClaimTemplateName: claimTemplate?.metadata.name },
    ]);
    expect(containers[0]?.resources?.claims).toEqual([{ name: "flavor" }]);
  }
});

test("a worker that is stopped waits until its leader no longer answers", async () => {
  const leader = createServer((_, response) => response.end("ok")).listen(0, "127.0.0.1");
  await once(leader, "listening");
  const { port } = leader.address() as AddressInfo;
  const hook = waitForLeaderOf({ port, path: "/health", drainSeconds: 60 });
  const [shell = "", ...args] = (hook as { exec: { command: string[] } }).exec.command;
  const ended = promisify(execFile)(shell, args, {
    env: { ...process.env, LWS_LEADER_ADDRESS: "127.0.0.1" },
  });
  const [request] = await once(leader, "request");
  expect(request.url).toBe("/health");
  leader.close();
  leader.closeAllConnections();
  await ended;
});

test("names of groups leave room for what Kubernetes adds to a label value of 63 characters", () => {
  expect(groupName("chat")).toBe("chat-group");
  const [one, other] = ["a", "b"].map((end) => groupName(`s${"x".repeat(48)}${end}`));
  expect(one).not.toBe(other);
  expect(one?.length).toBeLessThanOrEqual(49);
});
