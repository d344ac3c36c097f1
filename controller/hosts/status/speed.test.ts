import { expect, test } from "vitest";
import { getCondition } from "../../../src/api/conditions.ts";
import type { Host } from "../../../src/api/host.ts";
import { type Case, model, statusOf } from "./fixtures/status.ts";

const runs = (name: string, runtime: string, status = {}, unschedulable = false) =>
  ({
    metadata: { name },
    spec: { addresses: [], memory: {}, unschedulable },
    status: { runtimes: [{ name: runtime }], ...status },
  }) as unknown as Host;
const m4 = { info: { chip: "Apple M4", gpuCores: 10 } };
const speedHosts: Record<string, Host> = {
  live: runs("live", "llamacpp", { models: [{ source: model.spec.source, tokensPerSecond: 20 }] }),
  idle: runs("idle", "llamacpp", m4),
  new: runs("new", "llamacpp"),
  other: runs("other", "ollama", m4),
  cordoned: runs("cordoned", "llamacpp", m4, true),
};

test("a condition names the candidate hosts whose speed is unknown, and what supplies it", () => {
  const speedKnown = (names: readonly string[], more: Case = {}) => {
    const hosts = new Map(names.map((name) => [name, speedHosts[name] as Host]));
    const found = getCondition(statusOf({ hosts, ...more }).conditions, "SpeedKnown");
    return `${found?.status} ${found?.reason}: ${found?.message}`;
  };
  const pending = "a benchmark of this device class is pending; requests to a replica there also supply it";
  expect(speedKnown(["live"])).toBe("True SpeedMeasured: ");
  expect(speedKnown(["live", "idle", "new", "other", "cordoned"])).toBe(
    `False SpeedUnmeasured: speed unknown on idle (apple-m4-10), new (chip not reported): ${pending}`,
  );
  expect(speedKnown(["live", "idle"], { spec: { placement: { hosts: ["live"] } } })).toMatch(/^True/);
  expect(speedKnown(["other"], { spec: { runtime: "llamacpp" } })).toBe(
    "Unknown NoCandidates: no candidate host has llamacpp",
  );
  expect(speedKnown(["idle"], { spec: { mode: "embedding" } })).toMatch(/^True NothingToMeasure/);
  expect(speedKnown(["idle"], { model: undefined })).toMatch(/^Unknown ModelNotFound/);
  const off = { ...model, spec: { ...model.spec, benchmark: { enabled: false } } };
  expect(speedKnown(["idle"], { model: off })).toContain("benchmarks of its Model are disabled");
  const many = Object.fromEntries(
    [..."abcdefg"].map((name) => [name, { ...speedHosts.idle, metadata: { name } }]),
  );
  Object.assign(speedHosts, many);
  expect(speedKnown([..."gfedcba"])).toContain("e (apple-m4-10) and 2 more: ");
});
