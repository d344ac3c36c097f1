import { expect, test } from "vitest";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { isServingReplica, ordinalOf, retainedSlot, rolloutSlots } from "./slots.ts";
import { inputOf, type ShortInput } from "./testing/words.ts";

const named = (name: string) => ({ metadata: { name } }) as InferenceReplica;

test.each<[string, number]>([
  ["chat-0-aa", 0],
  ["chat-12-f3", 12],
  ["chat-2-1-aa", 1],
  ["chat-aa", Number.POSITIVE_INFINITY],
  ["chat-1-aa-", Number.POSITIVE_INFINITY],
])("the slot of %s is %d", (name, expected) => {
  expect(ordinalOf(named(name))).toBe(expected);
});

const UP = { phase: "Ready", conditions: [{ type: "HostReachable", status: "True" }] };
test.each<[string, object | undefined, string | undefined, boolean]>([
  ["Ready on a host that answers", UP, undefined, true],
  [
    "Ready on a silent host",
    { ...UP, conditions: [{ type: "HostReachable", status: "False" }] },
    undefined,
    false,
  ],
  ["starting", { ...UP, phase: "Starting" }, undefined, false],
  ["being deleted", UP, "2026-01-01T00:00:00Z", false],
  ["new", undefined, undefined, false],
])("a replica that is %s serves: %#", (_, status, deletionTimestamp, expected) => {
  const replica = {
    metadata: { name: "chat-0-aa", deletionTimestamp },
    status,
  } as unknown as InferenceReplica;
  expect(isServingReplica(replica)).toBe(expected);
});

const orderOf = (replicas: readonly string[], more: Partial<ShortInput> = {}) =>
  rolloutSlots(inputOf({ desired: 3, replicas, ...more }), "new", false).map(({ ordinal }) => ordinal);

test("slots change host by host, draining hosts first, and by ordinal on each host", () => {
  const words = ["0 old ready mac-2", "1 old ready mac-1", "2 old ready mac-2"];
  expect(orderOf(words)).toEqual([1, 0, 2]);
  expect(orderOf(words.toReversed())).toEqual([1, 0, 2]);
  expect(orderOf(words, { draining: ["mac-2"] })).toEqual([0, 2, 1]);
  // Of a slot on several hosts the old replica counts, and of those the one that serves.
  const both = ["0 new starting mac-1", "0 old starting mac-3", "0 older ready mac-9", "1 old ready mac-4"];
  expect(orderOf(both, { desired: 2 })).toEqual([1, 0]);
});

test.each<[string, readonly string[], string | undefined, string, string | undefined]>([
  ["the new revision is there", ["0 new starting"], undefined, "new", undefined],
  ["the old one serves", ["0 old ready"], undefined, "old", undefined],
  ["an old one serves, another does not", ["0 gone starting", "0 old ready"], undefined, "old", undefined],
  ["the old one is down", ["0 old starting"], undefined, "old", undefined],
  ["the old one is not in the history", ["0 gone ready"], undefined, "new", undefined],
  ["it is empty", [], "old", "old", undefined],
  ["it is empty, and nothing served before", [], undefined, "new", undefined],
  ["the new one fails beside the old", ["0 new failing", "0 old ready"], undefined, "new", "old"],
  ["one of two new ones fails", ["0 new failing m", "0 new ready n"], "old", "new", undefined],
  ["it fails, and the old one is gone", ["0 new failing"], "old", "new", "old"],
  ["it fails, and the old one is forgotten", ["0 new failing"], "x", "new", undefined],
  ["it fails, and nothing served before", ["0 new failing"], undefined, "new", undefined],
  ["it fails, and served before itself", ["0 new failing"], "new", "new", undefined],
  [
    "it fails beside two old ones",
    ["0 new failing", "0 gone starting", "0 old ready"],
    undefined,
    "new",
    "old",
  ],
])("while a rollout is stopped, the slot's revision where %s", (_, replicas, fallback, target, retained) => {
  const input = inputOf({ desired: 1, replicas, known: ["old", "new"], ...(fallback && { fallback }) });
  const [slot] = rolloutSlots(input, "new", true);
  expect([slot?.target, slot?.retained]).toEqual([target, retained]);
});

test("the revision that is retained because another fails is a separate slot", () => {
  const replicas = ["0 new failing", "0 old ready", "0 older ready"];
  const [slot] = rolloutSlots(inputOf({ desired: 1, replicas, known: ["old"] }), "new", true);
  const kept = slot && retainedSlot(slot);
  const revisions = (all: readonly InferenceReplica[] = []) => all.map(({ spec }) => spec.template.revision);
  expect([kept?.target, revisions(kept?.current), revisions(kept?.old)]).toEqual(["old", ["old"], ["older"]]);
  expect(slot && retainedSlot({ ...slot, retained: undefined })).toBeUndefined();
});
