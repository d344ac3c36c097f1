/** Holds the tables of engines in pods against what `npm run interop` recorded of the real ones. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { PodRuntime } from "../../../src/engines/contract/pod.ts";
import { llamacppPod } from "../../../src/engines/llamacpp/pod.ts";
import { vllmPod } from "../../../src/engines/vllm/pod.ts";
import { SERVED, type TriedRuntime, triedCommands } from "./fixtures/interop-cases.ts";
import { checkInterop, type InteropFacts } from "./fixtures/interop-facts.ts";

const PODS: Readonly<Record<TriedRuntime, PodRuntime>> = { llamacpp: llamacppPod, vllm: vllmPod };

function factsOf(runtime: TriedRuntime): InteropFacts {
  const file = new URL(`../../../src/engines/${runtime}/fixtures/interop.json`, import.meta.url);
  return JSON.parse(readFileSync(file, "utf8")) as InteropFacts;
}

function differences(runtime: TriedRuntime, facts = factsOf(runtime), pod = PODS[runtime]): string[] {
  return checkInterop(facts, { pod, served: SERVED, commands: triedCommands(runtime) })
    .filter(({ differs }) => differs !== undefined)
    .map(({ point, differs }) => `${point}: ${differs}`);
}

test.each(["llamacpp", "vllm"] as const)("the table of %s is as its pinned version was seen", (runtime) => {
  expect(differences(runtime)).toEqual([]);
});

test("a difference is reported with the observed value", () => {
  const seen = factsOf("vllm");
  const facts: InteropFacts = {
    ...seen,
    gauges: seen.gauges.filter((name) => name !== "vllm:num_requests_waiting"),
    flags: { ...seen.flags, "--dtype": ["auto"] },
    withoutKey: { ...seen.withoutKey, "/metrics": 401 },
    preStop: { waitsWhileBusy: false, exitCode: 0 },
  };
  const [first, ...rest] = differences("vllm", facts);
  expect(first).toMatch(/^arguments: .*--dtype bfloat16/);
  expect(rest).toEqual([
    'gauges of the drain and of autoscaling: ["vllm:num_requests_waiting"]',
    "key of the metrics: 401",
    "what is open without the key: /metrics",
    'preStop: {"waitsWhileBusy":false,"exitCode":0}',
  ]);
});
