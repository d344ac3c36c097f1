/** What may befall the simulated host, and what may be wished for. */
import { SERVE } from "./facts.ts";
import type { World } from "./world.ts";

type Action = (world: World) => void;

/** By name, so that a failing sequence can be read. */
export const actions: Record<string, Action> = {
  crash: (world) => world.crash(),
  crashWithChildren: (world) => {
    if (world.engine !== undefined) world.engine.leavesChildren = true;
    world.crash();
  },
  hang: (world) => {
    if (world.engine !== undefined) world.engine.isHung = true;
  },
  unhang: (world) => {
    if (world.engine !== undefined) world.engine.isHung = false;
  },
  stick: (world) => {
    if (world.engine !== undefined) world.engine.isStuck = true;
  },
  unstick: (world) => {
    if (world.engine !== undefined) world.engine.isStuck = false;
  },
  mute: (world) => {
    if (world.engine !== undefined) world.engine.isMute = !world.engine.isMute;
  },
  tellBetweenSteps: (world) => {
    if (world.engine !== undefined) world.engine.isTellingBetweenSteps = true;
  },
  degrade: (world) => {
    if (world.engine !== undefined) world.engine.isDegraded = true;
  },
  wake: (world) => world.wake(),
  restartAgent: (world) => world.restartAgent(),
  agentStop: (world) => {
    world.agentStop ??= "graceful";
  },
  agentStopsAtOnce: (world) => {
    if (world.agentStop !== undefined) world.agentStop = "immediate";
  },
  apiDown: (world) => {
    world.isApiUp = false;
  },
  apiUp: (world) => {
    world.isApiUp = true;
    world.isSliceRead = true;
  },
  list: (world) => {
    if (world.isApiUp) world.isListed = true;
  },
  sliceGone: (world) => {
    world.slice = "missing";
  },
  sliceMade: (world) => {
    if (world.slice === "missing") world.slice = "unwritten";
  },
  sliceEmptied: (world) => {
    if (world.slice !== "missing") world.slice = "unwritten";
  },
  withdrawnByController: (world) => {
    if (world.slice === "ready") world.slice = "withdrawn";
  },
  addressLost: (world) => {
    world.hasAddress = false;
  },
  addressBack: (world) => {
    world.hasAddress = true;
  },
  movedBeside: (world) => {
    world.moved = "beside";
  },
  cutOff: (world) => {
    world.moved = "cut off";
  },
  movedBack: (world) => {
    world.moved = "no";
  },
  memoryGone: (world) => {
    world.budget = 10;
  },
  memoryUnknown: (world) => {
    world.budget = "unknown";
  },
  evicted: (world) => {
    world.pressure = { at: "evicted", how: "evict", because: "memory is critical" };
  },
  unloaded: (world) => {
    world.pressure = { at: "evicted", how: "unload", because: "memory is low and it is idle" };
  },
  held: (world) => {
    world.pressure = { at: "held", because: "memory is low" };
  },
  admitClients: (world) => {
    world.pressure = { at: "none" };
  },
  memoryBack: (world) => {
    world.budget = 1_000;
  },
  modelMissing: (world) => {
    world.model = "missing";
  },
  modelBroken: (world) => {
    world.model = "broken";
  },
  modelBack: (world) => {
    world.model = "there";
  },
  otherWeights: (world) => {
    world.weights += 1;
  },
  runtimeMissing: (world) => {
    world.runtime = "missing";
  },
  runtimeBack: (world) => {
    world.runtime = "present";
  },
  busy: (world) => {
    world.isBusy = true;
  },
  idle: (world) => {
    world.isBusy = false;
  },
  shortRequest: (world) => {
    world.tokensTotal += 1;
  },
  stubborn: (world) => {
    world.nextEngine = { ignoresTerm: true };
  },
  neverHealthy: (world) => {
    world.nextEngine = { loadsUntil: Number.POSITIVE_INFINITY };
  },
  leavesChildren: (world) => {
    world.nextEngine = { leavesChildren: true };
  },
  ordinary: (world) => {
    world.nextEngine = {};
  },
  drain: (world) => {
    if (isServe(world)) world.wanted = { ...SERVE, drain: { reason: "Rollout" } };
  },
  drainWithDeadline: (world) => {
    if (isServe(world))
      world.wanted = { ...SERVE, drain: { reason: "Rollout", deadlineAt: world.now + 3_000 } };
  },
  drainWithPastDeadline: (world) => {
    if (isServe(world))
      world.wanted = { ...SERVE, drain: { reason: "Rollout", deadlineAt: world.now - 9_000 } };
  },
  longerDrain: (world) => {
    if (typeof world.wanted !== "string") world.wanted = { ...world.wanted, drainSeconds: 3_600 };
  },
  undrain: (world) => {
    if (typeof world.wanted !== "string" && !world.wanted.isDeleting) world.wanted = SERVE;
  },
  delete: (world) => {
    if (typeof world.wanted !== "string") world.wanted = { ...world.wanted, isDeleting: true };
  },
};

/** No request to stop it for good is open. */
export function isServe(world: World): boolean {
  return typeof world.wanted !== "string" && !world.wanted.isDeleting;
}
