import { expect, test } from "vitest";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { HOST_MODELS_MAX, type Host, hostSchema, INSTALLED_MAX } from "../../src/api/host.ts";
import { hostStatusBody, type ObservedHost, unknownHostBody } from "./host-status.ts";

const GIB = 2 ** 30;

const seen: ObservedHost = {
  info: { os: "darwin" },
  address: { at: "up", address: "192.0.2.1" },
  memory: { totalBytes: 64 * GIB, availableBytes: 40 * GIB, wiredBytes: 4 * GIB, pressure: "Normal" },
  gpuBudgetBytes: 50 * GIB,
  claimedBytes: 8 * GIB,
  disk: { totalBytes: 1000 * GIB, freeBytes: 400 * GIB, storeBytes: 20 * GIB },
  diskReserveBytes: 5 * GIB,
  runtimes: { found: [{ name: "llamacpp", version: "b1" }], problems: [] },
  models: [],
  isWorking: true,
};

function host(status?: Host["status"]): Host {
  const made = hostSchema.parse({ metadata: { name: "mac", uid: "u", generation: 3 }, spec: {} });
  return (status === undefined ? made : { ...made, status }) as Host;
}

function condition(body: Host, type: string) {
  return body.status?.conditions?.find((each) => each.type === type);
}

test("the first status has every field, with the observed generation", () => {
  const body = hostStatusBody(host(), seen, "2026-01-01T00:00:00.000Z");
  expect(body.metadata).toEqual({ name: "mac", uid: "u" });
  expect(body.status?.conditions?.map((each) => [each.type, each.status, each.reason])).toEqual([
    ["DiskPressure", "False", "Normal"],
    ["MemoryPressure", "False", "Normal"],
    ["Ready", "True", "AgentReady"],
    ["RuntimesUsable", "True", "RuntimesFound"],
  ]);
  expect(condition(body, "Ready")?.observedGeneration).toBe(3);
  expect(body.status?.memory).toMatchObject({
    availableBytes: 40 * GIB,
    claimed: "8 GiB",
    pressure: "Normal",
  });
});

test("the certificates for sealed replicas are published, and absent without any", () => {
  const transport = { fingerprints: ["a".repeat(64), "b".repeat(64)] };
  const body = hostStatusBody(host(), { ...seen, transport }, "2026-01-01T00:00:00.000Z");
  expect(body.status?.transport).toEqual(transport);
  expect(hostStatusBody(host(), seen, "2026-01-01T00:00:00.000Z").status?.transport).toBeUndefined();
});

test("measured compute buffers are published, so that the scheduler uses the same figures", () => {
  const compute = { factor: 1.2, extraBytes: GIB };
  const body = hostStatusBody(host(), { ...seen, compute }, "2026-01-01T00:00:00.000Z");
  expect(body.status?.memory?.compute).toEqual(compute);
  expect(hostStatusBody(host(), seen, "2026-01-01T00:00:00.000Z").status?.memory).not.toHaveProperty(
    "compute",
  );
});

test("models of other programs are published up to a limit, with how many were left out", () => {
  const installed = Array.from({ length: INSTALLED_MAX + 1 }, (_, at) => ({
    source: `ollama://m:${at}`,
    runtime: "ollama",
  }));
  const long = { source: "x".repeat(10_000), runtime: "ollama" };
  const full = hostStatusBody(
    host(),
    { ...seen, installed: [long, ...installed] },
    "2026-01-01T00:00:00.000Z",
  );
  expect(full.status?.installed).toEqual(installed.slice(0, INSTALLED_MAX));
  expect(full.status?.installedLeftOut).toBe(2);
  const none = hostStatusBody(host(), { ...seen, installed: [] }, "2026-01-01T00:00:00.000Z");
  expect(none.status?.installed).toBeUndefined();
  expect(none.status?.installedLeftOut).toBeUndefined();
  // An agent that has just started has not read them yet.
  const again = hostStatusBody(host(full.status), seen, "2026-01-01T00:00:00.000Z");
  expect(again.status).toMatchObject({ installed: full.status?.installed, installedLeftOut: 2 });
});

test("findings of doctor's checks are conditions of the Host, and keep their time while they stay", () => {
  const risk = (status: "True" | "False") => ({
    ...seen,
    machineConditions: [{ type: "PowerAtRisk", status, reason: "OnBattery", message: "the machine draws" }],
  });
  const first = hostStatusBody(host(), risk("True"), "2026-01-01T00:00:00.000Z");
  const second = hostStatusBody(host(first.status), risk("True"), "2026-01-02T00:00:00.000Z");
  const third = hostStatusBody(host(second.status), risk("False"), "2026-01-03T00:00:00.000Z");
  const times = [first, second, third].map((body) => condition(body, "PowerAtRisk")?.lastTransitionTime);
  expect(times).toEqual(["2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z", "2026-01-03T00:00:00.000Z"]);
});

test("the memory left for new claims is the budget less the reserve and the claims, and never negative", () => {
  const left = (spec: object, more: Partial<ObservedHost> = {}) => {
    const made = hostSchema.parse({ metadata: { name: "mac" }, spec: { memory: spec } });
    const { leftBytes, left: words } =
      hostStatusBody(made, { ...seen, ...more }, "2026-01-01T00:00:00.000Z").status?.memory ?? {};
    return [leftBytes, words];
  };
  expect(left({})).toEqual([42 * GIB, "42 GiB of 50 GiB"]);
  expect(left({ systemReserve: "10Gi" })).toEqual([32 * GIB, "32 GiB of 40 GiB"]);
  expect(left({ gpuBudget: "12Gi", systemReserve: "2Gi" })).toEqual([2 * GIB, "2 GiB of 10 GiB"]);
  expect(left({ gpuBudget: "4Gi" })).toEqual([0, "0 MiB of 4 GiB"]);
  const unknown = { memory: { pressure: "Unknown" as const }, gpuBudgetBytes: undefined };
  expect(left({}, unknown)).toEqual([undefined, undefined]);
});

test("small fluctuations are not a change, a real change is, and the transition time changes only with the status", () => {
  const first = hostStatusBody(host(), seen, "2026-01-01T00:00:00.000Z");
  const noisy: ObservedHost = {
    ...seen,
    memory: { ...seen.memory, availableBytes: 41 * GIB, wiredBytes: 4.5 * GIB },
    disk: { totalBytes: 1000 * GIB, freeBytes: 395 * GIB, storeBytes: 20 * GIB + 1 },
  };
  const later = hostStatusBody(host(first.status), noisy, "2026-01-02T00:00:00.000Z");
  expect(later.status).toEqual(first.status);
  const busy = {
    ...seen,
    memory: { ...seen.memory, availableBytes: 30 * GIB, pressure: "Warning" as const },
  };
  const changed = hostStatusBody(host(first.status), busy, "2026-01-02T00:00:00.000Z");
  expect(changed.status?.memory).toMatchObject({ availableBytes: 30 * GIB, pressure: "Warning" });
  expect(condition(changed, "MemoryPressure")).toMatchObject({
    status: "True",
    lastTransitionTime: "2026-01-02T00:00:00.000Z",
  });
  expect(condition(changed, "Ready")?.lastTransitionTime).toBe("2026-01-01T00:00:00.000Z");
});

test("the controller's conditions are not written by the agent", () => {
  const reachable = {
    type: "Reachable",
    status: "True",
    reason: "Renewed",
    message: "",
    lastTransitionTime: "2026-01-01T00:00:00Z",
  } as const;
  const body = hostStatusBody(host({ conditions: [reachable] }), seen, "2026-01-01T00:00:00.000Z");
  expect(condition(body, "Reachable")).toBeUndefined();
});

test("failed readings are absent or Unknown, a missing address is a reason with a remedy", () => {
  const blind: ObservedHost = {
    ...seen,
    memory: { pressure: "Unknown" },
    gpuBudgetBytes: undefined,
    disk: undefined,
    address: { at: "none", code: "AddressUnknown", why: "192.0.2.1 is not up on this machine" },
  };
  const body = hostStatusBody(host(), blind, "2026-01-01T00:00:00.000Z");
  expect(condition(body, "MemoryPressure")?.status).toBe("Unknown");
  expect(condition(body, "DiskPressure")?.status).toBe("Unknown");
  expect(condition(body, "Ready")).toMatchObject({
    status: "False",
    reason: "AddressUnknown",
    message: expect.stringMatching(/not up.*--address/),
  });
  expect(body.status?.memory).not.toHaveProperty("availableBytes");
  expect(body.status?.addresses).toEqual([]);
});

test("an unregistered address is reported with the command that registers it", () => {
  const why =
    "this machine has 192.168.1.30 now, which is not among spec.addresses of the Host (192.168.1.20)";
  const address = { at: "none", code: "AddressNotRegistered", why, register: "192.168.1.30" } as const;
  const { name } = host().metadata;
  const messageWith = (addresses?: string[]) => {
    const known = { ...host(), spec: { ...host().spec, addresses } } as Host;
    const ready = condition(hostStatusBody(known, { ...seen, address }, "2026-01-01T00:00:00.000Z"), "Ready");
    expect(ready).toMatchObject({ status: "False", reason: "AddressNotRegistered" });
    return ready?.message;
  };
  const command = (addresses: string) =>
    `kubectl patch host ${name} --type=merge --patch '{"spec":{"addresses":[${addresses}]}}'`;
  const message = messageWith(["192.168.1.20"]);
  expect(message).toContain(why);
  expect(message).toContain(`kubectl edit host ${name}`);
  expect(message).toContain(command('"192.168.1.20","192.168.1.30"'));
  // A list that is not there takes the command too.
  expect(messageWith()).toContain(command('"192.168.1.30"'));
});

test("an unusable or missing engine is reported with a remedy", () => {
  const message = "/bin/llama-server is version 1, which lacks --metrics; upgrade the engine on the host";
  const old = { found: [], problems: [{ runtime: "llamacpp", code: "RuntimeTooOld", message }] } as const;
  const body = hostStatusBody(host(), { ...seen, runtimes: old }, "2026-01-01T00:00:00.000Z");
  expect(condition(body, "RuntimesUsable")).toMatchObject({
    status: "False",
    reason: "RuntimeTooOld",
    message,
  });
  const none = hostStatusBody(host(), { ...seen, runtimes: { found: [], problems: [] } }, "now");
  expect(condition(none, "RuntimesUsable")).toMatchObject({ status: "False", reason: "RuntimeNotInstalled" });
  expect(condition(none, "RuntimesUsable")?.message).toContain("brew install llama.cpp");
});

test("if there are too many models for the status, those in use and those used last are listed", () => {
  const models = Array.from({ length: 1_200 }, (_, index) => ({
    source: `hf://org/model-${index}`,
    lastUsedAt: new Date(Date.UTC(2026, 0, 1, index)).toISOString(),
    inUse: index === 0,
  }));
  const listed = hostStatusBody(host(), { ...seen, models }, "2026-01-01T00:00:00.000Z").status?.models ?? [];
  expect(listed).toHaveLength(HOST_MODELS_MAX);
  expect(listed[0]?.source).toBe("hf://org/model-0");
  expect(listed[1]?.source).toBe("hf://org/model-1199");
  expect(listed.at(-1)?.source).toBe("hf://org/model-945");
});

test("without an observation, Ready is Unknown and the other published fields are kept", () => {
  const published = hostStatusBody(host(), seen, "2026-01-01T00:00:00.000Z").status ?? {};
  const theirs = { type: "Reachable", status: "True", reason: "LeaseRenewed", message: "" } as const;
  const state = { source: "hf://a/b", phase: "Ready" } as const;
  const status = {
    ...published,
    conditions: [
      ...(published.conditions ?? []),
      { ...theirs, lastTransitionTime: "2026-01-01T00:00:00.000Z" },
    ],
    reachableChanges: ["2026-01-01T00:00:00.000Z"],
    prefetch: { wanted: [{ model: "hf://a/b" }], models: [state] },
    benchmark: { order: { key: "k" }, state: { key: "k", phase: "Waiting" } },
  } as unknown as Host["status"];
  const error = new MetalbridgeError(
    "ObservationFailed",
    "cannot read the disk of the model store: no answer",
  );
  const body = unknownHostBody(host(status), error, "2026-01-02T00:00:00.000Z");
  expect(condition(body, "Ready")).toMatchObject({
    status: "Unknown",
    reason: "ObservationFailed",
    message: expect.stringContaining("the disk of the model store"),
    observedGeneration: 3,
    lastTransitionTime: "2026-01-02T00:00:00.000Z",
  });
  expect(condition(body, "Reachable")).toBeUndefined();
  const { conditions: _, ...rest } = body.status ?? {};
  const { conditions: __, ...before } = published;
  const benchmark = { state: { key: "k", phase: "Waiting" } };
  expect(rest).toEqual({ ...before, prefetch: { models: [state] }, benchmark });
});
