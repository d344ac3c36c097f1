import { expect, test } from "vitest";
import { aMac, aModel, aReplica, aService, condition, GIB } from "../fixtures/objects.ts";
import { farmRow, namespaceFigures } from "./farm.ts";
import { modelRow } from "./model.ts";

test("a Model that is ready shows copies, and downloads of replicas, prefetch and volume, one per place", () => {
  const model = aModel("tiny", {
    phase: "Ready",
    hosts: [{ name: "mac-2" }],
    cache: {
      phase: "Downloading",
      reason: "Downloading",
      message: "1 of 4 GiB",
      claimName: "cache",
      folder: "x",
      bytes: GIB,
      totalBytes: 4 * GIB,
    },
  });
  const progress = { bytes: 2 * GIB, totalBytes: 4 * GIB, bytesPerSecond: 1e8 };
  const replicas = [
    aReplica("chat-0", { phase: "Fetching", progress }),
    aReplica("chat-1", { phase: "Ready" }),
  ];
  const prefetch = (name: string) =>
    aMac(name, [], {
      "status.prefetch.models": [
        { model: "default/tiny", source: "x", phase: "Pending" },
        { model: "default/other", source: "y", phase: "Downloading" },
      ],
    });
  const hosts = [prefetch("mac-1"), prefetch("mac-3")];
  expect(modelRow({ model, replicas, hosts, services: ["default/chat"] })).toMatchObject({
    state: { word: "Downloading 37 %", level: "busy" },
    attention: undefined,
    copies: ["mac-2"],
    services: ["default/chat"],
    downloads: [
      { place: "cache", phase: "Downloading", bytes: GIB, totalBytes: 4 * GIB, message: "1 of 4 GiB" },
      { place: "mac-1", phase: "Downloading", ...progress },
      { place: "mac-3", phase: "Pending", bytes: 0 },
    ],
  });
});

test("a failed source is bad, a degraded one that serves a warning, and a failed prefetch names its host", () => {
  const of = (status: Parameters<typeof aModel>[1], hosts = [aMac("mac-1")]) =>
    modelRow({ model: aModel("tiny", status), services: [], replicas: [], hosts });
  const degraded = [condition("Degraded", "True", "SourceInvalid", "spec.source is no URL")];
  expect(of({ phase: "Failed", conditions: degraded })).toMatchObject({
    state: { word: "Failed", level: "bad" },
    attention: { level: "bad", reason: "SourceInvalid", remedy: expect.stringMatching(/^write it as/) },
  });
  expect(of({ phase: "Ready", conditions: degraded })).toMatchObject({
    state: { word: "Degraded", level: "warn" },
    attention: { level: "warn" },
  });
  const failed = [
    { model: "default/tiny", source: "x", phase: "Failed", reason: "DiskFull", message: "full" },
  ];
  expect(of({ phase: "Ready" }, [aMac("mac-1", [], { "status.prefetch.models": failed })])).toMatchObject({
    state: { word: "Ready" },
    attention: { level: "warn", reason: "DiskFull", message: "mac-1: full" },
  });
  expect(of({ phase: "Pending", reason: "ReadingSource" })).toMatchObject({
    state: { word: "Pending", level: "busy" },
    attention: undefined,
  });
});

test("the farm counts neither idle services as missing nor namespaces that a reader does not see", () => {
  const ready = (name: string, namespace: string, tokensPerSecond: number) =>
    aService(
      name,
      { phase: "Ready", readyReplicas: 1, desiredReplicas: 1, performance: { tokensPerSecond } },
      { namespace },
    );
  const figures = namespaceFigures([
    ready("a", "team-a", 10.5),
    ready("b", "team-b", 5),
    aService("c", { phase: "Idle", desiredReplicas: 0 }, { namespace: "team-a" }),
    aService("d", { phase: "Degraded", readyReplicas: 1, desiredReplicas: 2 }, { namespace: "team-a" }),
  ]);
  const machine = { claimedBytes: GIB, budgetBytes: 4 * GIB };
  const row = farmRow([machine, machine], [...figures.values()], [[1, 2, 3], [4]]);
  expect(row).toEqual({
    services: { ready: 2, total: 3 },
    claimedBytes: 2 * GIB,
    budgetBytes: 8 * GIB,
    tokensPerSecond: 15.5,
    requestsInFlight: 0,
    history: [1, 2, 7],
  });
  const seen = figures.get("team-b");
  expect(farmRow([], seen === undefined ? [] : [seen], [])).toMatchObject({
    services: { ready: 1, total: 1 },
  });
});
