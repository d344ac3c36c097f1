import { describe, expect, test } from "vitest";
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import { testGoldens } from "../../test/golden/golden.ts";
import type { Verdict } from "./liveness.ts";
import { isServing, planHost } from "./plan.ts";

const NOW = "2026-01-01T00:00:00Z";

interface ShortInput {
  readonly verdict: Verdict;
  /** What Reachable says now; `deleted` for a Host that is gone. */
  readonly host: "True" | "False" | "Unknown" | "new" | "deleted";
  /** `<name> <HostReachable, or new> <hostLostSeconds> [leaving] [free]` */
  readonly replicas?: readonly string[];
  /** `<name> serving|withdrawn|empty` */
  readonly slices?: readonly string[];
}

function condition(type: string, status: string): object {
  return { type, status, reason: "Before", message: "", lastTransitionTime: "2025-01-01T00:00:00Z" };
}

function host(word: ShortInput["host"]): Host | undefined {
  if (word === "deleted") return undefined;
  const conditions = word === "new" ? [] : [condition("Reachable", word)];
  return { metadata: { name: "mac-1" }, spec: {}, status: { conditions } } as unknown as Host;
}

function replica(words: string): InferenceReplica {
  const [name = "", reachable = "", seconds = "", ...marks] = words.split(" ");
  return {
    metadata: {
      name,
      finalizers: marks.includes("free") ? [] : ["metalbridge.dev/engine"],
      ...(marks.includes("leaving") ? { deletionTimestamp: NOW } : {}),
    },
    spec: { hostLostSeconds: Number(seconds) },
    status: { conditions: reachable === "new" ? [] : [condition("HostReachable", reachable)] },
  } as unknown as InferenceReplica;
}

function slice(words: string): EndpointSlice {
  const [name = "", state = ""] = words.split(" ");
  const on = { ready: true, serving: true, terminating: false };
  const off = { ready: false, serving: false, terminating: true };
  const conditions = state === "serving" ? on : off;
  const endpoints = state === "empty" ? null : [{ addresses: ["192.168.7.1"], conditions }];
  return { metadata: { name }, addressType: "IPv4", endpoints };
}

describe("golden", () => {
  testGoldens(`${import.meta.dirname}/golden`, (short: ShortInput) => {
    const { steps, needsProof } = planHost(
      {
        name: "mac-1",
        host: host(short.host),
        verdict: short.verdict,
        replicas: (short.replicas ?? []).map(replica),
        slices: (short.slices ?? []).map(slice),
      },
      NOW,
    );
    const told = steps.map((step) => {
      if (step.do === "withdrawSlice") return `withdraw ${step.slice.metadata.name}: ${step.because}`;
      if (step.do === "giveUpReplica") return `give up ${step.replica.metadata.name}: ${step.because}`;
      const name = step.do === "setHostConditions" ? step.host.metadata.name : step.replica.metadata.name;
      const said = step.conditions.map(({ type, status, reason }) => `${type}=${status} (${reason})`);
      return `${name}: ${said.join(", ")}`;
    });
    return { needsProof, steps: told };
  });
});

test("an endpoint without conditions is served by kube-proxy", () => {
  expect(
    isServing({ metadata: { name: "a" }, addressType: "IPv4", endpoints: [{ addresses: ["10.0.0.1"] }] }),
  ).toBe(true);
});
