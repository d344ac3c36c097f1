import { expect, it } from "vitest";
import { replicaOf } from "../rollout/testing/words.ts";
import type { SlotReason } from "../rollout/types.ts";
import { slotDemand } from "./demand.ts";
import type { ServiceObserved } from "./observed.ts";
import type { Runnable } from "./templates.ts";

function mayPreempt(why: SlotReason, ...words: readonly string[]): boolean {
  const service = {
    metadata: { name: "chat", namespace: "default" },
    spec: { priority: "high", placement: { spread: "None" } },
  };
  const replicas = words.map((word) => {
    const replica = replicaOf(word);
    return { ...replica, spec: { template: { ...replica.spec.template, model: { source: "" } } } };
  });
  const runnable = { template: { model: { source: "" }, engine: {} }, claim: { at: "unknown" } };
  const observed = { service, replicas } as unknown as ServiceObserved;
  return slotDemand(observed, runnable as unknown as Runnable, { ordinal: 0, why }, []).mayPreempt === true;
}

it("may preempt other services only while nothing of its slot serves", () => {
  expect(mayPreempt("fill")).toBe(true);
  expect(mayPreempt("fill", "1 aa ready")).toBe(true);
  expect(mayPreempt("replace", "0 bb starting")).toBe(true);
  expect(mayPreempt("replace", "0 aa ready", "0 bb starting")).toBe(false);
  for (const why of ["refill", "surge", "move"] as const) expect(mayPreempt(why)).toBe(false);
});
