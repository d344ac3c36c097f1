import fc from "fast-check";
import { expect, test } from "vitest";
import { inferenceServiceSpecSchema } from "../../../src/api/inference-service/index.ts";
import type { DeploymentStrategy } from "../../../src/kube/workload-objects.ts";
import { renewalStrategy, SURGE_ONE, strategyOf, UNAVAILABLE_ONE } from "./strategy.ts";

const RECREATE = { type: "Recreate" } as const;

function rolling(maxUnavailable: number | string, maxSurge: number | string): DeploymentStrategy {
  return { type: "RollingUpdate", rollingUpdate: { maxUnavailable, maxSurge } };
}

function strategy(rollout: object, hasDevices: boolean, replicas: number | undefined) {
  const spec = inferenceServiceSpecSchema.parse({ modelRef: "m", rollout });
  return strategyOf({ rollout: spec.rollout, hasDevices, replicas });
}

const CPU = false;
const GPU = true;

test.each<[string, object, boolean, number | undefined, DeploymentStrategy]>([
  ["one pod without devices", {}, CPU, 1, SURGE_ONE],
  ["several pods without devices", {}, CPU, 3, SURGE_ONE],
  ["one pod with a GPU, and none to spare", {}, GPU, 1, RECREATE],
  ["several pods with GPUs", {}, GPU, 3, UNAVAILABLE_ONE],
  ["pods with GPUs that an autoscaler counts", {}, GPU, undefined, UNAVAILABLE_ONE],
  ["a suspended service with a GPU", {}, GPU, 0, RECREATE],
  ["one pod with a GPU, which may not stop first", { maxUnavailable: 0 }, GPU, 1, SURGE_ONE],
  ["several with GPUs of which none may stop first", { maxUnavailable: "0%" }, GPU, 3, rolling("0%", 1)],
  ["one pod with a GPU, and one to spare", { maxSurge: 1 }, GPU, 1, SURGE_ONE],
  ["both set, with a GPU", { maxUnavailable: 1, maxSurge: 1 }, GPU, 1, rolling(1, 1)],
  ["one pod with a GPU that may be missing", { maxUnavailable: 1 }, GPU, 1, RECREATE],
  ["no room beside it, without devices", { maxSurge: 0 }, CPU, 1, UNAVAILABLE_ONE],
  ["a share", { maxUnavailable: "25%" }, CPU, 8, rolling("25%", 1)],
])("%s", (_, rollout, hasDevices, replicas, expected) => {
  expect(strategy(rollout, hasDevices, replicas)).toEqual(expected);
});

test("fields that are set apply unchanged, and a rollout can always make progress", () => {
  const limit = fc.option(fc.oneof(fc.constantFrom(0, 1, 2), fc.constantFrom("0%", "25%", "100%")), {
    nil: undefined,
  });
  const isZero = (value: unknown) => value === 0 || value === "0%";
  fc.assert(
    fc.property(limit, limit, fc.boolean(), fc.nat(4), (maxUnavailable, maxSurge, hasDevices, replicas) => {
      fc.pre(!(isZero(maxUnavailable) && isZero(maxSurge)));
      const found = strategy({ maxUnavailable, maxSurge }, hasDevices, replicas);
      if (found.type === "Recreate") {
        expect([hasDevices, replicas <= 1, isZero(maxUnavailable)]).toEqual([true, true, false]);
        return;
      }
      const { rollingUpdate } = found;
      expect(rollingUpdate.maxUnavailable).toBe(maxUnavailable ?? rollingUpdate.maxUnavailable);
      expect(rollingUpdate.maxSurge).toBe(maxSurge ?? rollingUpdate.maxSurge);
      expect(isZero(rollingUpdate.maxUnavailable) && isZero(rollingUpdate.maxSurge)).toBe(false);
    }),
  );
});

test.each<[string, DeploymentStrategy, boolean, number, DeploymentStrategy]>([
  ["without devices another is ready first", rolling(1, 1), CPU, 2, SURGE_ONE],
  ["without devices, where there is no room beside", UNAVAILABLE_ONE, CPU, 2, UNAVAILABLE_ONE],
  ["with GPUs one takes over the device of the other", UNAVAILABLE_ONE, GPU, 2, UNAVAILABLE_ONE],
  ["with GPUs that are spared", SURGE_ONE, GPU, 2, SURGE_ONE],
  ["with GPUs, where a wait for a spare one might never end", rolling(1, 1), GPU, 2, UNAVAILABLE_ONE],
  ["the only one with a GPU", RECREATE, GPU, 1, RECREATE],
  ["two that are left of more, with GPUs", RECREATE, GPU, 2, UNAVAILABLE_ONE],
])("pods of a certain age: %s", (_, given, hasDevices, pods, expected) => {
  expect(renewalStrategy(given, hasDevices, pods)).toEqual(expected);
});
