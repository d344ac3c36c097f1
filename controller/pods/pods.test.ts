/** What the statuses that a kubelet reports of a pod mean, in the order in which it reports them. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { LABEL_MOUNTS } from "../../src/api/group.ts";
import type { ContainerStatus, Pod } from "../../src/kube/workload-objects.ts";
import { readPods } from "./pods.ts";

function podWith(status: Pod["status"], more: Partial<Pod> = {}): Pod {
  return {
    metadata: { name: "chat-1", uid: "p1" },
    spec: { containers: [{ name: "engine", image: "i" }], initContainers: [{ name: "fetch", image: "i" }] },
    ...more,
    status: { phase: "Pending", ...status },
  };
}

const end = (exitCode: number, reason: string, message = "") => ({
  terminated: { exitCode, reason, message: message === "" ? undefined : message },
});
const killed = end(137, "OOMKilled");
const waits = { waiting: { reason: "PodInitializing" } };
const backOff = {
  waiting: { reason: "CrashLoopBackOff", message: "back-off 20s restarting failed container" },
};
const runs = { running: { startedAt: "2026-01-01T00:00:00Z" } };

const init = (status: Omit<ContainerStatus, "name">) =>
  readPods([
    podWith({
      initContainerStatuses: [{ name: "fetch", ready: false, ...status }],
      containerStatuses: [{ name: "engine", ready: false, started: false, restartCount: 0, state: waits }],
    }),
  ]).problem;

test("an init container that is killed gives one problem during its back-off and each restart", () => {
  expect(init({ started: true, restartCount: 0, state: runs })).toBeUndefined();
  const states: Omit<ContainerStatus, "name">[] = [
    { started: false, restartCount: 0, state: killed },
    { started: false, restartCount: 1, state: killed, lastState: killed },
    { started: true, restartCount: 2, state: runs, lastState: killed },
    { started: false, restartCount: 2, state: killed, lastState: killed },
  ];
  for (const state of states) {
    const problem = init(state);
    expect(problem?.code).toBe("PodCrashing");
    expect(problem?.message).toMatch(/^fetch of chat-1 .*: exit code 137 \(OOMKilled\)$/);
  }
  expect(
    init({ ready: true, started: false, restartCount: 3, state: end(0, "Completed"), lastState: killed }),
  ).toBeUndefined();
});

const engine = (status: Omit<ContainerStatus, "name">) =>
  readPods([podWith({ phase: "Running", containerStatuses: [{ name: "engine", ready: false, ...status }] })])
    .problem;

test("a crash loop gives one problem during its back-off and each restart, until the engine has started", () => {
  const died = end(1, "Error", "loading\nerror: unknown architecture");
  expect(engine({ started: false, restartCount: 0, state: runs })).toBeUndefined();
  const states: Omit<ContainerStatus, "name">[] = [
    { started: false, restartCount: 0, state: died },
    { started: false, restartCount: 1, state: runs, lastState: died },
    { started: false, restartCount: 1, state: died, lastState: died },
    { started: false, restartCount: 1, state: backOff, lastState: died },
    { started: false, restartCount: 2, state: runs, lastState: died },
  ];
  for (const state of states)
    expect(engine(state)).toMatchObject({
      code: "PodCrashing",
      message: expect.stringMatching(/exit code 1 \(Error\): error: unknown architecture$/),
    });
  // Busy, long after it was restarted.
  expect(engine({ started: true, restartCount: 2, state: runs, lastState: died })).toBeUndefined();
});

test.each([
  [
    "vLLM, whose Python warns at its end",
    "RuntimeError: Engine core initialization failed. See root cause above.\nresource_tracker.py:254: UserWarning: leaked\n  warnings.warn(",
    "RuntimeError: Engine core initialization failed. See root cause above.",
  ],
  [
    "vLLM with a context that is too long",
    "ValidationError: 1 validation error for ModelConfig\n  Value error, max_model_len (900000) is greater than 8192\n    For further information visit a page",
    "Value error, max_model_len (900000) is greater than 8192",
  ],
  [
    "llama-server with a value that it does not take",
    'error while handling argument "--cache-type-k": Unsupported cache type: q3_9\n\nto show complete usage, run with -h',
    'error while handling argument "--cache-type-k": Unsupported cache type: q3_9',
  ],
])("the line that names the error is shown: %s", (_title, printed, line) => {
  expect(engine({ started: false, restartCount: 0, state: end(1, "Error", printed) })?.message).toMatch(
    new RegExp(`: exit code 1 \\(Error\\): ${line.replaceAll(/[()]/g, "\\$&")}$`),
  );
});

test("the last line of a killed engine is shown, whatever it logged before", () => {
  const printed = "error: a client has gone\nprompt 3 done";
  const message = engine({ started: false, restartCount: 0, state: end(137, "OOMKilled", printed) })?.message;
  expect(message).toMatch(/\(OOMKilled\): prompt 3 done$/);
});

test("an engine that is killed for its memory has a remedy by whether it has a limit, its init container another", () => {
  const state = { started: false, restartCount: 1, state: killed };
  expect(engine(state)?.remedy).toMatch(/^its node ran out of memory: set spec\.resources\.memory/);
  const spec = { containers: [{ name: "engine", image: "i", resources: { limits: { memory: "96Mi" } } }] };
  const limited = podWith({ containerStatuses: [{ name: "engine", ...state }] }, { spec });
  expect(readPods([limited]).problem?.remedy).toMatch(/^raise its memory limit of 96Mi/);
  expect(init(state)?.remedy).toBe("raise spec.resources.memory of the Model");
  const failed = { started: false, restartCount: 1, state: end(1, "Error", "0.00.061.310 E cannot load") };
  expect(engine(failed)).toMatchObject({
    message: expect.stringMatching(/: cannot load$/),
    remedy: "read its log: kubectl logs chat-1 -c engine --previous",
  });
});

test("the problem of a finished pod is reported until a later one is ready, after the problems of that one", () => {
  const at = (second: number) => ({
    name: `chat-${second}`,
    creationTimestamp: `2026-01-01T00:00:0${second}Z`,
  });
  const evicted = podWith({ phase: "Failed", reason: "Evicted", message: "too much" }, { metadata: at(2) });
  const completed = podWith({ phase: "Succeeded", containerStatuses: [] }, { metadata: at(2) });
  const ready = (second: number) =>
    podWith({ phase: "Running", conditions: [{ type: "Ready", status: "True" }] }, { metadata: at(second) });
  expect(readPods([ready(1), evicted]).problem).toEqual({
    code: "PodEvicted",
    message: "chat-2 was evicted: too much",
  });
  expect(readPods([evicted, ready(3)]).problem).toBeUndefined();
  const crashing = podWith({ containerStatuses: [{ name: "engine", state: killed }] }, { metadata: at(3) });
  expect(readPods([evicted, crashing]).problem?.code).toBe("PodCrashing");
  // Only its Events say why.
  expect(readPods([completed]).problem).toBeUndefined();
});

test("a sidecar among the init containers counts as started once its probe has succeeded", () => {
  const sidecar = { name: "proxy", image: "i", restartPolicy: "Always" };
  const status: ContainerStatus = {
    name: "proxy",
    started: true,
    restartCount: 1,
    state: runs,
    lastState: killed,
  };
  const pod = podWith(
    { initContainerStatuses: [status] },
    { spec: { containers: [{ name: "engine", image: "i" }], initContainers: [sidecar] } },
  );
  expect(readPods([pod]).problem).toBeUndefined();
});

test.each<[message: string, mounts: boolean, code: string]>([
  ["0/2 nodes are available: 2 node(s) had volume node affinity conflict.", false, "UnbindableModelCache"],
  ["0/2 nodes are available: 2 node(s) didn't match pod affinity rules.", true, "UnbindableModelCache"],
  ["0/2 nodes are available: 2 node(s) didn't match pod affinity rules.", false, "PodUnschedulable"],
  [
    "0/2 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) didn't match pod affinity rules.",
    true,
    "UnbindableModelCache",
  ],
])("%s (mounts a volume of one node: %s) is %s", (message, mounts, code) => {
  const conditions = [{ type: "PodScheduled", status: "False", reason: "Unschedulable", message }] as const;
  const labels: Record<string, string> = mounts ? { [`${LABEL_MOUNTS}0123`]: "mounted" } : {};
  const pod = podWith({ conditions }, { metadata: { name: "chat-1", labels } });
  expect(readPods([pod]).unscheduled?.code).toBe(code);
});

test("a pod with required affinity to other pods and to its volume reports both rules and the remedy", () => {
  const message = "0/2 nodes are available: 2 node(s) didn't match pod affinity rules.";
  const conditions = [{ type: "PodScheduled", status: "False", reason: "Unschedulable", message }] as const;
  const labels = { [`${LABEL_MOUNTS}0123`]: "mounted" };
  const term = { topologyKey: "kubernetes.io/hostname" };
  const waitingWith = (terms: readonly object[]) => {
    const podAffinity = { requiredDuringSchedulingIgnoredDuringExecution: terms };
    const spec = { containers: [], affinity: { podAffinity } };
    return readPods([podWith({ conditions }, { metadata: { name: "chat-1", labels }, spec })]).unscheduled;
  };
  expect(waitingWith([term])).toMatchObject({ code: "UnbindableModelCache", message });
  expect(waitingWith([term, term])).toMatchObject({
    code: "PodUnschedulable",
    message: expect.stringMatching(
      /^.*spec\.affinity\.podAffinity.*preferred.*ReadWriteMany.*Ephemeral: 0\/2 nodes/,
    ),
  });
});

const NOT_FOUND =
  'failed to pull and unpack image "registry.example/llama:v9": failed to resolve reference "registry.example/llama:v9": registry.example/llama:v9: not found';
const PULLS: [string, { readonly reason: string; readonly message: string }, string][] = [
  ["a failed pull", { reason: "ErrImagePull", message: NOT_FOUND }, `ErrImagePull: ${NOT_FOUND}`],
  [
    "its back-off",
    {
      reason: "ImagePullBackOff",
      message: `Back-off pulling image "registry.example/llama:v9": ErrImagePull: ${NOT_FOUND}`,
    },
    `ErrImagePull: ${NOT_FOUND}`,
  ],
  [
    "the back-off of an older kubelet",
    { reason: "ImagePullBackOff", message: 'Back-off pulling image "registry.example/llama:v9"' },
    'ImagePullBackOff: Back-off pulling image "registry.example/llama:v9"',
  ],
  [
    "a name that cannot be",
    { reason: "InvalidImageName", message: 'Failed to apply default image tag "a:b:c"' },
    'InvalidImageName: Failed to apply default image tag "a:b:c"',
  ],
  [
    "an image that must be on the node",
    {
      reason: "ErrImageNeverPull",
      message: 'Container image "a:1" is not present with pull policy of Never',
    },
    'ErrImageNeverPull: Container image "a:1" is not present with pull policy of Never',
  ],
];

test.each(PULLS)(
  "%s is a problem with the image, with one text for an error and its back-off",
  (_, waiting, text) => {
    const status = { restartCount: 0, started: false, state: { waiting } };
    const { code, message, remedy } = engine(status) ?? {};
    expect({ code, message, remedy }).toEqual({
      code: "ImageUnavailable",
      message: `engine of chat-1: ${text}`,
      remedy: undefined,
    });
    // The program that fetches weights is the controller's.
    expect(init({ ...status, ready: false })).toMatchObject({
      code: "ImageUnavailable",
      message: `fetch of chat-1: ${text}`,
      remedy: expect.stringContaining("--image"),
    });
  },
);

test("messages of pods and the scheduler are truncated before they become a condition", () => {
  const text = fc.string({ maxLength: 40_000, unit: "binary" });
  const state = fc.oneof(
    fc.record({
      waiting: fc.record({
        reason: fc.constantFrom("ErrImagePull", "CreateContainerError", "x"),
        message: text,
      }),
    }),
    fc.record({ terminated: fc.record({ exitCode: fc.integer(), reason: text, message: text }) }),
  );
  const devices = fc.nat(32).map((count) => {
    const names = Array.from(
      { length: count },
      (_, index) => `${"x".repeat(60)}.example/${"y".repeat(60)}${index}`,
    );
    return Object.fromEntries(names.map((name) => [name, "1"]));
  });
  const shape = fc.record({
    state,
    devices,
    lastState: fc.constant(killed),
    failed: fc.boolean(),
    message: fc.oneof(text, fc.constant("0/1 nodes are available: preemption is not helpful")),
  });
  fc.assert(
    fc.property(fc.array(shape, { minLength: 1, maxLength: 5 }), (given) => {
      const pods = given.map(({ failed, message, devices, ...container }) =>
        podWith(
          {
            phase: failed ? "Failed" : "Pending",
            reason: "Odd",
            message,
            conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable", message }],
            containerStatuses: [{ name: "engine", ...container }],
          },
          { spec: { containers: [{ name: "engine", image: "i", resources: { limits: devices } }] } },
        ),
      );
      const { problem, unscheduled } = readPods(pods);
      expect(problem?.message.length ?? 0).toBeLessThanOrEqual(1_000);
      expect(unscheduled?.message.length).toBeLessThanOrEqual(1_000);
      expect(unscheduled?.waitingFor.length).toBeLessThanOrEqual(1_000);
    }),
    { numRuns: 200 },
  );
});
