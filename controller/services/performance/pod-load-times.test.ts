import { expect, test } from "vitest";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import { createPodLoadTimes } from "./pod-load-times.ts";

const at = (seconds: number) => new Date(1_800_000_000_000 + seconds * 1_000).toISOString();

/** As a kubelet reports it. Times in seconds. */
function pod({ uid = "u1", started = 40, ready, fetches = [] }: Partial<Facts>): Pod {
  return {
    metadata: { name: uid, namespace: "team", uid },
    spec: { containers: [] },
    status: {
      conditions: [
        {
          type: "Ready",
          status: ready === undefined ? "False" : "True",
          reason: "",
          message: "",
          lastTransitionTime: at(ready ?? 0),
        },
      ],
      containerStatuses: [{ name: "engine", state: { running: { startedAt: at(started) } } }],
      initContainerStatuses: fetches.map(([from, to], index) => ({
        name: index === 0 ? "fetch" : `fetch-${index + 1}`,
        state: { terminated: { exitCode: 0, startedAt: at(from), finishedAt: at(to) } },
      })),
    },
  };
}

interface Facts {
  readonly uid: string;
  readonly started: number;
  readonly ready: number | undefined;
  readonly fetches: readonly (readonly [number, number])[];
}

/** Sum and number of observations by phase, after each list of pods in turn. */
function countsOf(...lists: readonly (readonly Pod[])[]) {
  const times = createPodLoadTimes();
  const labels = { model: "hf://org/m", backend: "vllm", node: "gpu-1" };
  const read = (pods: readonly Pod[]) =>
    Object.fromEntries(
      times
        .read(pods, () => labels)
        .map(({ labels: { phase = "" } = {}, histogram: { sum, counts } }) => [
          phase,
          [sum, counts.reduce((all, one) => all + one, 0)],
        ]),
    );
  return lists.map(read).at(-1);
}

const fetches = [
  [0, 30],
  [31, 36],
] as const;

test.each<[string, object, readonly (readonly Pod[])[]]>([
  [
    "a pod that has become ready counts once, with all its downloads",
    { start: [50, 1], pull: [35, 1] },
    [[pod({ fetches })], [pod({ ready: 90, fetches })], [pod({ ready: 90, fetches })]],
  ],
  ["a pod that was ready at first does not count", {}, [[pod({ ready: 90 })], [pod({ ready: 90 })]]],
  ["a pod that is not ready does not count", {}, [[], [pod({})]]],
  ["a pod without downloads has no pull", { start: [50, 1] }, [[], [pod({ ready: 90 })]]],
  [
    "an engine that restarted counts again, without the download",
    { start: [70, 2], pull: [35, 1] },
    [
      [],
      [pod({ ready: 90, fetches })],
      [pod({ started: 200, fetches })],
      [pod({ started: 200, ready: 220, fetches })],
    ],
  ],
  [
    "a pod that was unready in between does not count again",
    { start: [50, 1] },
    [[], [pod({ ready: 90 })], [pod({})], [pod({ ready: 300 })]],
  ],
  [
    "a status whose engine is newer than its readiness waits for the next one",
    { start: [10, 1] },
    [[], [pod({ started: 200, ready: 90 })], [pod({ started: 200, ready: 210 })]],
  ],
])("%s", (_, expected, lists) => {
  expect(countsOf(...lists)).toEqual(expected);
});

test("a pod of a deleted service does not count", () => {
  const times = createPodLoadTimes();
  times.read([], () => undefined);
  expect(times.read([pod({ ready: 90 })], () => undefined)).toEqual([]);
});
