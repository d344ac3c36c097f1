import { describe, expect, test } from "vitest";
import type { Condition, ConditionUpdate } from "../../../src/api/conditions.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { flappingUpdate, lostUpdate, reachableUpdate, replicaUpdate, withUpdates } from "./conditions.ts";
import type { LivenessVerdict } from "./liveness.ts";

const THEN = "2025-01-01T00:00:00Z";
const NOW = "2026-01-01T00:00:00Z";

const update = (type: string, status: "True" | "False" = "True", reason = "R", message = "m") =>
  ({ type, status, reason, message }) as const;
const written = (one: ConditionUpdate, lastTransitionTime = THEN): Condition => ({
  ...one,
  lastTransitionTime,
});

describe("conditions after an update", () => {
  const mine = written(update("Mine"));
  const kept = written(update("Kept"));
  const others = written(update("Others"));
  interface Given {
    readonly before: readonly Condition[] | undefined;
    readonly updates: readonly (ConditionUpdate | undefined)[];
    readonly ended: readonly string[];
  }
  const given = (before: Given["before"], updates: Given["updates"], ended: Given["ended"] = []): Given => ({
    before,
    updates,
    ended,
  });

  test.each<[string, Given, readonly Condition[] | undefined]>([
    ["the first one is written", given(undefined, [update("Mine")]), [written(update("Mine"), NOW)]],
    ["the same one changes nothing", given([mine, kept], [update("Mine")]), undefined],
    ["no update changes nothing", given([mine, kept, others], [undefined]), undefined],
    [
      "another status has a new time; conditions of other owners are not written",
      given([others, kept, mine], [undefined, update("Mine", "False")]),
      [kept, written(update("Mine", "False"), NOW)],
    ],
    [
      "another reason keeps the time",
      given([mine], [update("Mine", "True", "Other")]),
      [written(update("Mine", "True", "Other"))],
    ],
    [
      "another message keeps the time",
      given([mine], [update("Mine", "True", "R", "other")]),
      [written(update("Mine", "True", "R", "other"))],
    ],
    [
      "what differs is written together with what does not",
      given([mine, kept], [update("Mine", "False"), update("Kept")]),
      [kept, written(update("Mine", "False"), NOW)],
    ],
    ["an ended one is removed", given([mine, kept], [], ["Mine"]), [kept]],
    ["one that ended before changes nothing", given([kept], [], ["Mine"]), undefined],
    ["nothing of nothing is nothing", given(undefined, []), undefined],
  ])("%s", (_, { before, updates, ended }, expected) => {
    const found = withUpdates(before, ["Mine", "Kept"], updates, { nowIso: NOW, ended });
    const byType = (all: readonly Condition[] | undefined) =>
      all?.toSorted((a, b) => (a.type < b.type ? -1 : 1));
    expect(byType(found)).toEqual(byType(expected));
  });
});

const bare = { metadata: { name: "mac-1" }, spec: {} } as Host;
const replica = { metadata: { name: "a" }, spec: { hostLostSeconds: 90 } } as unknown as InferenceReplica;
const lost = (isDeclared: boolean): LivenessVerdict => ({ at: "lost", silentMs: 1, isDeclared });

test.each([
  [false, "no Lease renewal for longer than hostLostSeconds"],
  [true, "declared lost by an operator"],
])("a lost host and its replicas say why: declared %s", (isDeclared, why) => {
  const verdict = lost(isDeclared);
  const host = "replicas are rescheduled; start the agent again, or delete the Host";
  expect(lostUpdate(verdict)?.message).toBe(`${why}; ${host}`);
  expect(replicaUpdate("mac-1", bare, verdict, replica)?.message).toBe(`host mac-1 is lost: ${why}`);
});

test("both conditions report a host that an operator declared lost with --force", () => {
  const messages = (verdict: LivenessVerdict) =>
    [reachableUpdate(verdict), lostUpdate(verdict)].map((one) => one?.message);
  const forced = { ...lost(true), isForced: true } as const;
  const [reachable = "", lostMessage] = messages(forced);
  expect(reachable).toContain("with --force");
  expect(lostMessage).toBe(reachable);
  expect(messages(lost(true))).not.toContain(reachable);
  expect(messages({ at: "unreachable", silentMs: 1 })[0]).toMatch(/^no renewal of the agent's Lease/);
});

test("a Host and a replica without a status get no condition while the controller still counts", () => {
  expect(flappingUpdate(bare, undefined)).toBeUndefined();
  expect(replicaUpdate("mac-1", bare, { at: "counting" }, replica)).toBeUndefined();
  const seen = {
    ...bare,
    status: { conditions: [written(update("Reachable"))] },
  } as unknown as Host;
  expect(replicaUpdate("mac-1", seen, { at: "counting" }, replica)).toMatchObject({ status: "True" });
});
