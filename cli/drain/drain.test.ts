import { describe, expect, it } from "vitest";
import { type Host, hostSchema } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { drainChanges, viewDrain } from "./follow.ts";
import { changeOperations } from "./patch.ts";

function host(spec: object, drained?: object): Host {
  const condition = { type: "Drained", lastTransitionTime: "2026-03-01T12:00:00Z", message: "", ...drained };
  return hostSchema.parse({
    metadata: { name: "mini-1", uid: "h1" },
    spec,
    status: { conditions: drained === undefined ? [] : [condition] },
  });
}

function replica(name: string, fields: { status?: object; spec?: object; metadata?: object } = {}) {
  return {
    metadata: { name, namespace: "team", ...fields.metadata },
    spec: { template: { hostName: "mini-1" }, ...fields.spec },
    status: fields.status,
  } as unknown as InferenceReplica;
}

describe("what is written", () => {
  it("is only what differs", () => {
    expect(changeOperations(host({ unschedulable: true }), { unschedulable: true })).toEqual([]);
    expect(changeOperations(host({ drain: true }), { unschedulable: false, drain: false })).toEqual([
      { op: "add", path: "/spec/drain", value: false },
    ]);
  });

  it("makes a spec where there is none", () => {
    const bare = { metadata: { name: "mini-1", uid: "h1" } } as unknown as Host;
    expect(changeOperations(bare, { drain: true })).toEqual([
      { op: "add", path: "/spec", value: { drain: true } },
    ]);
    expect(changeOperations(bare, { drain: false })).toEqual([]);
  });
});

describe("the view of a drain", () => {
  const view = (
    drained: object | undefined,
    replicas: readonly InferenceReplica[] = [],
    spec = { drain: true },
  ) => viewDrain(host(spec, drained), replicas, 7);

  it("is drained by the controller's word, not by an empty list", () => {
    expect(view(undefined)).toMatchObject({ at: "moving", message: "" });
    expect(view({ status: "True", reason: "HostDrained", observedGeneration: 7 })).toMatchObject({
      at: "drained",
    });
  });

  it("does not believe a word about an earlier drain", () => {
    expect(view({ status: "True", reason: "HostDrained", observedGeneration: 6 })).toMatchObject({
      at: "moving",
    });
  });

  it("does not believe a word that what is there contradicts", () => {
    const word = { status: "True", reason: "HostDrained" };
    expect(view(word, [replica("a", { status: { phase: "Ready" } })])).toMatchObject({ at: "moving" });
    expect(view(word, [])).toMatchObject({ at: "drained" });
  });

  it("ends when the host is uncordoned", () => {
    expect(view({ status: "True", reason: "HostDrained" }, [], { drain: false })).toMatchObject({
      at: "takenBack",
    });
  });

  it("lists what each replica of this host does, and no others", () => {
    const elsewhere = replica("x", { spec: { template: { hostName: "mini-2" } } });
    const { left } = view({ status: "False", reason: "DrainWaits", message: "2 left" }, [
      elsewhere,
      replica("new"),
      replica("stays", { status: { phase: "Ready" } }),
      replica("goes", {
        status: { phase: "Ready" },
        metadata: { deletionTimestamp: "2026-03-01T12:00:00Z" },
      }),
      replica("drains", { status: { phase: "Draining", message: "1 request in flight" } }),
    ]);
    expect([...left]).toEqual([
      ["team/new", "Pending"],
      ["team/stays", "Ready; runs until another replica is Ready elsewhere"],
      ["team/goes", "Ready; leaving"],
      ["team/drains", "Draining: 1 request in flight"],
    ]);
  });

  it("says what is new, once", () => {
    const first = view({ status: "False", reason: "DrainWaits", message: "2 left" }, [
      replica("a", { status: { phase: "Ready" } }),
      replica("bbb", { status: { phase: "Draining" } }),
    ]);
    expect(drainChanges(undefined, first)).toEqual([
      "  team/a    Ready; runs until another replica is Ready elsewhere",
      "  team/bbb  Draining",
      "2 left",
    ]);
    expect(drainChanges(first, first)).toEqual([]);
    const next = view({ status: "False", reason: "DrainWaits", message: "1 left" }, [
      replica("a", { status: { phase: "Draining" } }),
    ]);
    expect(drainChanges(first, next)).toEqual(["  team/a    Draining", "  team/bbb  has left", "1 left"]);
  });
});
