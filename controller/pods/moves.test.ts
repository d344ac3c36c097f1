import { expect, test } from "vitest";
import { type MoveInput, nodeMoveOf, settleMove } from "./moves.ts";
import { isMakingRoom } from "./pods.ts";

const NOW = "2026-01-01T00:00:00Z";
const EARLIER = "2025-12-31T00:00:00Z";
const NOW_MS = Date.parse(NOW);
/** Pods serve, and nothing changes. */
const CALM: MoveInput = {
  renewedAt: EARLIER,
  isTemplateSame: true,
  departures: [],
  move: undefined,
  hasMoveStrategy: false,
  pods: {
    isServing: true,
    isWaiting: false,
    isRoomMade: false,
    hasOld: false,
    isRollingOut: false,
    on: ["slow"],
  },
  nowMs: NOW_MS,
};
const settled = ({
  pods,
  ...rest
}: Omit<Partial<MoveInput>, "pods"> & { pods?: Partial<MoveInput["pods"]> }) =>
  settleMove({ ...CALM, ...rest, pods: { ...CALM.pods, ...pods } });
const departures = [{ machine: "slow", notTo: ["third"], sinceMs: NOW_MS }];
const MOVE = { since: NOW, avoid: ["slow", "third"], before: { renewedAt: EARLIER } };
/** The Deployment shows the move, and the old pod still serves. */
const ON = { renewedAt: NOW, move: MOVE, pods: { hasOld: true } };

test("without a move nothing changes", () => {
  expect(settled({})).toEqual({ renewedAt: EARLIER });
  expect(settled({ pods: { isWaiting: true } })).toEqual({ renewedAt: EARLIER });
});

test("a move renews the pods, and continues from the Deployment's annotation until no old pod is left", () => {
  expect(settled({ departures })).toEqual({ renewedAt: NOW, move: MOVE });
  // The watch may show a pod before the Deployment that created it.
  const later = NOW_MS + 60_000;
  expect(settled({ departures, nowMs: later, pods: { hasOld: true } })).toEqual({
    renewedAt: NOW,
    move: MOVE,
  });
  expect(settled({ ...ON, nowMs: later })).toEqual({ renewedAt: NOW, move: MOVE, recheckAfterMs: 1_740_000 });
  expect(settled({ ...ON, departures, nowMs: later }).renewedAt).toBe(NOW);
  expect(settled({ ...ON, departures, pods: { hasOld: false } })).toEqual({ renewedAt: NOW });
  expect(settled({ ...ON, departures, isTemplateSame: false })).toEqual({ renewedAt: NOW });
});

test("a move whose annotation is lost or edited still stops no pod that serves", () => {
  const lost = { renewedAt: NOW, hasMoveStrategy: true };
  const hasOld = true;
  expect(settled({ ...lost, pods: { hasOld } })).toEqual({ renewedAt: NOW, move: { since: NOW, avoid: [] } });
  expect(settled({ ...lost, pods: { hasOld, isServing: false } })).toEqual({ renewedAt: NOW });
  expect(settled(lost)).toEqual({ renewedAt: NOW });
  expect(settled({ ...lost, isTemplateSame: false, pods: { hasOld } })).toEqual({ renewedAt: NOW });
  const read = (text: string) =>
    nodeMoveOf({
      metadata: { name: "chat", annotations: { "metalbridge.dev/node-move": text } },
    } as unknown as Parameters<typeof nodeMoveOf>[0]);
  for (const text of ["", "{", "[]", '{"since":"yesterday"}']) expect(read(text)).toBeUndefined();
  const before = { avoid: ["a"], prefer: [] };
  const older = read(JSON.stringify({ since: NOW, before }));
  expect(older).toEqual({ since: NOW, avoid: [], before: {} });
  expect(settled({ renewedAt: undefined, move: older, pods: { hasOld } }).move).toEqual(older);
});

test("a move with a start in the future takes no longer than another", () => {
  const move = { ...MOVE, since: "2999-01-01T00:00:00Z" };
  expect(settled({ ...ON, move })).toEqual({ renewedAt: NOW, move, recheckAfterMs: 1_800_000 });
});

test("a move is undone with one additional pod if pods find no node or are not Ready in time", () => {
  const waits = { hasOld: true, isWaiting: true };
  const { before } = MOVE;
  expect(settled({ ...ON, pods: waits })).toEqual({
    renewedAt: EARLIER,
    move: { since: NOW, avoid: [], before },
    blocked: "NoNode",
  });
  expect(settled({ ...ON, pods: { ...waits, isRoomMade: true } })).toMatchObject({
    renewedAt: NOW,
    move: MOVE,
  });
  const late = settled({ ...ON, nowMs: NOW_MS + 1_800_000 });
  const home = { since: "2026-01-01T00:30:00Z", avoid: [], before };
  expect(late).toEqual({ renewedAt: EARLIER, move: home, blocked: "NotReady" });
  // Until the pods of the move are gone, or for as long again.
  const back = { move: home, nowMs: NOW_MS + 1_800_000 };
  expect(settled({ ...back, pods: waits })).toEqual({
    renewedAt: EARLIER,
    move: home,
    recheckAfterMs: 1_800_000,
  });
  expect(settled({ ...back, pods: { isWaiting: true } })).toEqual({ renewedAt: EARLIER });
  expect(settled({ ...back, nowMs: NOW_MS + 3_600_000, pods: waits })).toEqual({ renewedAt: EARLIER });
});

test("a move is not undone where no pod is on a node that it leaves", () => {
  const unchanged = { renewedAt: NOW, move: { since: NOW, avoid: [] } };
  for (const on of [["fast"], []])
    expect(settled({ ...ON, pods: { hasOld: true, isWaiting: true, on } })).toEqual(unchanged);
  expect(settled({ ...ON, move: unchanged.move, pods: { hasOld: true, isWaiting: true } })).toEqual(
    unchanged,
  );
});

test("no move begins while pods wait, or during a rollout", () => {
  const begin = (pods: Partial<MoveInput["pods"]>) => settled({ departures, pods });
  expect(begin({ isWaiting: true })).toEqual({ renewedAt: EARLIER, blocked: "NoNode" });
  expect(begin({ hasOld: true, isRollingOut: true })).toEqual({ renewedAt: EARLIER, blocked: "RollingOut" });
});

test("a pod that is being deleted makes room, as does one that others are preempted for", () => {
  const pod = { metadata: { name: "chat" }, spec: { containers: [] } };
  expect(isMakingRoom(pod)).toBe(false);
  expect(isMakingRoom({ ...pod, metadata: { ...pod.metadata, deletionTimestamp: NOW } })).toBe(true);
  expect(isMakingRoom({ ...pod, status: { nominatedNodeName: "fast" } })).toBe(true);
});
