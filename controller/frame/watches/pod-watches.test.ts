/** Watches of kinds that a cluster may lack: what a leader waits for, and which services a change concerns. */
import { expect, test } from "vitest";
import { LABEL_SERVICE } from "../../../src/api/group.ts";
import { REASON_KIND_NOT_INSTALLED } from "../../../src/kube/errors.ts";
import type { ApiFailure, FailureKind } from "../../../src/kube/types.ts";
import { type ReflectorOptions, UNWATCHED } from "../../../src/kube/watch/reflector.ts";
import type { Pod, QueueWorkload } from "../../../src/kube/workload-objects.ts";
import type { ChangeHandlers, StartWatch, WatchOptions } from "./contract.ts";
import { createPodGroupings, startPodWatches } from "./pod-watches.ts";

type Started = Omit<ReflectorOptions<never>, keyof WatchOptions>;

/** Watches that the test feeds, each with the objects in `cached`. */
function startedWatches(cached: Readonly<Record<string, Pod>> = {}) {
  const started = new Map<string, Started>();
  const services: string[] = [];
  const start: StartWatch = (rest) => {
    started.set(rest.kind.plural, rest as unknown as Started);
    return { ...UNWATCHED, isSynced: () => false, get: (key) => cached[key] as never };
  };
  const on = { onService: (key: string) => services.push(key) } as unknown as ChangeHandlers;
  const groupings = createPodGroupings();
  const watches = startPodWatches(
    start,
    groupings,
    (notify) => notify(on),
    () => {},
  );
  const watchOf = (plural: string) => started.get(plural) as Started;
  return { watches, groupings, services, watchOf };
}

async function isKnown(whenKnown: Promise<void>): Promise<boolean> {
  return Promise.race([whenKnown.then(() => true), Promise.resolve().then(() => false)]);
}

const failure = (kind: FailureKind, reason = ""): ApiFailure => ({ kind, reason, status: 0, message: "" });

test.each<[string, (watch: Started) => void, boolean]>([
  ["nothing", () => undefined, false],
  ["an API server that does not answer", ({ onFailure }) => onFailure?.(failure("unreachable")), false],
  [
    "a cluster without the kind",
    ({ onFailure }) => onFailure?.(failure("unavailable", REASON_KIND_NOT_INSTALLED)),
    true,
  ],
  ["a role without the right", ({ onFailure }) => onFailure?.(failure("forbidden")), true],
  ["the first list", ({ onSynced }) => onSynced?.(), true],
])("after %s, DeviceClasses are known: %#", async (_, happens, expected) => {
  const { watches, watchOf } = startedWatches();
  happens(watchOf("deviceclasses"));
  expect(await isKnown(watches.whenDeviceClassesKnown())).toBe(expected);
});

test("a Workload of Kueue concerns the service of the pod that owns it, and is kept without its pod templates", () => {
  const pod: Pod = {
    metadata: { name: "chat-1", namespace: "a", uid: "u1", labels: { [LABEL_SERVICE]: "chat" } },
    spec: { containers: [] },
  };
  const { groupings, services, watchOf } = startedWatches({ "a/chat-1": pod });
  const workload = (name: string, kind: string, owner: string) =>
    ({
      metadata: {
        name,
        namespace: "a",
        ownerReferences: [{ apiVersion: "v1", kind, name: owner, uid: "u1" }],
        labels: { team: "a" },
      },
      spec: { podSets: [{ template: {} }] },
      status: { conditions: [{ type: "Admitted", status: "True" }], admission: {} },
    }) as unknown as QueueWorkload;
  const { onChange, keep } = watchOf("workloads") as unknown as ReflectorOptions<QueueWorkload>;
  onChange("a/other", workload("other", "Job", "chat-1"), undefined);
  onChange("a/gone", workload("gone", "Pod", "chat-2"), undefined);
  expect(services).toEqual([]);
  const kept = keep?.(workload("w", "Pod", "chat-1"));
  onChange("a/w", kept, undefined);
  expect(services).toEqual(["a/chat"]);
  expect(groupings.queueWorkloadsOfOwner.of("u1")).toContain(kept);
  expect(kept).toEqual({
    metadata: {
      name: "w",
      namespace: "a",
      ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "chat-1", uid: "u1" }],
    },
    status: { conditions: [{ type: "Admitted", status: "True" }] },
  });
});
