import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { backendRuntimeSchema } from "../../../src/api/backend-runtime.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { testGoldens } from "../../../test/golden/golden.ts";
import { backendBlocked, backendOf } from "../turns.ts";
import { type BackendTurn, planBackend } from "./plan.ts";
import { backendControllerRevision, revisionOfBackend } from "./revision.ts";
import { withBackendStatus } from "./service-status.ts";

const NOW = "2026-01-01T00:00:00Z";

interface ShortInput {
  /** Tag of the image; absent if the BackendRuntime does not exist. */
  readonly current?: string;
  readonly policy?: string;
  readonly stored?: readonly string[];
  /** `<name> <tag in use, or new> <phase> <replicas> [suspended] [changed] [deleted]` */
  readonly services: readonly string[];
  readonly updating?: string;
  /** `<name> <tag>` */
  readonly granted?: readonly string[];
}

testGoldens(fileURLToPath(new URL("./golden", import.meta.url)), (input: ShortInput) => {
  const { create, remove, turn, status } = plan(input);
  return {
    ...(create && { create: create.metadata.name }),
    ...(remove.length > 0 && { remove: remove.map(({ metadata }) => metadata.name) }),
    granted: Object.fromEntries(turn.granted),
    ...(status && { status }),
  };
});

function plan({ current, policy, stored = [], services, updating, granted = [] }: ShortInput) {
  const turn: BackendTurn = {
    updating: updating && `default/${updating}`,
    granted: new Map(
      granted.map((words) => {
        const [name = "", tag = ""] = words.split(" ");
        return [`default/${name}`, revisionOf(tag)];
      }),
    ),
  };
  const input = {
    name: "engine",
    runtime: current === undefined ? undefined : runtime(current, policy),
    stored: stored.map((tag) =>
      backendControllerRevision({ name: "engine", revision: revisionOf(tag), spec: runtime(tag).spec }, 1),
    ),
    services: services.map(service),
    turn,
  };
  return planBackend(input, NOW);
}

function runtime(tag: string, rolloutPolicy?: string) {
  return backendRuntimeSchema.parse({
    metadata: { name: "engine", generation: 3 },
    spec: { image: `registry.example/engine:${tag}`, rolloutPolicy },
  });
}

function revisionOf(tag: string): string {
  return revisionOfBackend(runtime(tag).spec);
}

function service(words: string): InferenceService {
  const [name = "", tag = "", phase, replicas, ...marks] = words.split(" ");
  return {
    metadata: {
      name,
      namespace: "default",
      generation: marks.includes("changed") ? 2 : 1,
      deletionTimestamp: marks.includes("deleted") ? NOW : undefined,
    },
    spec: { backendRuntime: { name: "engine" }, suspend: marks.includes("suspended"), replicas: 1 },
    status: {
      phase,
      message: "as reported",
      observedGeneration: 1,
      replicas: Number(replicas),
      backendRuntime: tag === "new" ? undefined : { name: "engine", revision: revisionOf(tag) },
    },
  } as unknown as InferenceService;
}

/** Runs the rollout of services that each become Ready at once, and returns the order of the updates. */
test("each service is updated exactly once, in the order of names, and never two at the same time", () => {
  const names = ["c", "a", "b"];
  const using = new Map(names.map((name) => [name, "1"]));
  const order: string[] = [];
  let updating: string | undefined;
  for (let pass = 0; pass < 10; pass += 1) {
    const services = names.map((name) => `${name} ${using.get(name)} Ready 1`);
    const { turn } = plan({ current: "2", stored: ["1", "2"], services, updating });
    expect(turn.granted.size).toBeLessThanOrEqual(1);
    for (const key of turn.granted.keys()) {
      const name = key.replace("default/", "");
      order.push(name);
      using.set(name, "2");
    }
    updating = turn.updating?.replace("default/", "");
  }
  expect(order).toEqual(["a", "b", "c"]);
  expect(updating).toBeUndefined();
});

test("the rollout policy is not content, so a change of it updates nothing", () => {
  expect(revisionOfBackend(runtime("1", "OnRequest").spec)).toBe(revisionOf("1"));
});

test("without BackendRuntimes that can be read, a service waits and keeps the revision in use", () => {
  const using = service("chat v1 Ready 1");
  const problem = "the cluster lacks the CRD";
  const facts = {
    backendRuntimes: { get: () => runtime("v2") },
    revisionsOfBackend: { of: () => [] },
    backendsProblem: () => problem,
  };
  const blocked = backendBlocked(facts, using);
  expect(backendOf(facts, using)).toBeUndefined();
  expect(blocked).toMatchObject({ code: "BackendRuntimesUnavailable", isFinal: false });
  const status = withBackendStatus({ service: using, backend: undefined, blocked }, {}, NOW);
  expect(status.backendRuntime).toEqual(using.status?.backendRuntime);
  expect(status.conditions).toMatchObject([
    {
      type: "BackendRuntimeCurrent",
      status: "Unknown",
      message: `cannot read BackendRuntime engine: ${problem}`,
    },
  ]);
  const plain = { ...using, spec: { ...using.spec, backendRuntime: undefined } };
  expect(backendBlocked(facts, plain)).toBeUndefined();
});
