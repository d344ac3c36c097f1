/** A simulated host for the governor's tests: foreign memory by a curve, engines that take time to end and to start. */
import { govern, INITIAL_GOVERNOR_STATE } from "../govern.ts";
import { defaultLimits, type GovernorLimits } from "../limits.ts";
import type {
  GovernedEngine,
  GovernedEngineState,
  GovernorPlan,
  GovernorState,
  PressureLevel,
  PressureReading,
} from "../types.ts";

const GIB = 2 ** 30;
const STEP_MS = 1_000;

export interface Machine {
  readonly totalGiB: number;
  /** What others hold at `t` seconds, in GiB. */
  readonly foreign: (seconds: number) => number;
  readonly engines: readonly Pick<GovernedEngine, "id" | "priority" | "isProtected" | "bytes">[];
  /** May replace what the system says at `t` seconds. */
  readonly lie?: (seconds: number, honest: PressureReading) => PressureReading;
  readonly mayEvict?: boolean;
  readonly endSeconds?: number;
  readonly startSeconds?: number;
}

export interface MachineEvent {
  readonly seconds: number;
  readonly what: "level" | "evict" | "unload" | "gone" | "return" | "back";
  readonly which: string;
}

type Tell = (what: MachineEvent["what"], which: string) => void;

interface Body {
  readonly engine: Machine["engines"][number];
  readonly age: number;
  standing: GovernedEngineState;
  until: number;
  evictedAt: number[];
}

/** Runs the machine under the governor for `seconds` and returns the events; `onSecond` is called for each second. */
export function run(
  machine: Machine,
  seconds: number,
  limits: GovernorLimits = defaultLimits,
  onSecond?: (second: { readonly availableShare: number; readonly level: PressureLevel }) => void,
): readonly MachineEvent[] {
  const events: MachineEvent[] = [];
  const bodies: Body[] = machine.engines.map((engine, age) => {
    return { engine, age, standing: { at: "running" }, until: 0, evictedAt: [] };
  });
  let state: GovernorState = INITIAL_GOVERNOR_STATE;
  let readAt = 0;
  for (let now = 0; now <= seconds * STEP_MS; now += STEP_MS) {
    const tell: Tell = (what, which) => events.push({ seconds: now / 1_000, what, which });
    for (const body of bodies) pass(body, now, tell);
    const honest = look(machine, bodies, now);
    const availableShare = (honest.availableBytes ?? 0) / (machine.totalGiB * GIB);
    onSecond?.({ availableShare, level: state.level });
    if (now < readAt) continue;
    const reading = machine.lie?.(now / 1_000, honest) ?? honest;
    const engines = bodies.map((body) => seenAs(body, now, limits));
    const plan = govern(state, { now, reading, engines, mayEvict: machine.mayEvict ?? true }, limits);
    if (plan.level !== state.level) tell("level", plan.level);
    state = plan.state;
    readAt = now + plan.readAgainMs;
    obey(plan, machine, bodies, now, tell);
  }
  return events;
}

function obey(plan: GovernorPlan, machine: Machine, bodies: readonly Body[], now: number, tell: Tell): void {
  const { eviction, starts } = plan;
  for (const body of bodies) {
    const { id } = body.engine;
    if (eviction?.id === id) {
      tell(eviction.how, id);
      body.evictedAt.push(now);
      body.standing = { at: "ending" };
      body.until = now + (machine.endSeconds ?? 3) * 1_000;
    }
    const mayStart = starts.at === "all" || (starts.at === "one" && starts.id === id);
    if (body.standing.at === "evicted" && mayStart) {
      tell("return", id);
      body.standing = { at: "starting" };
      body.until = now + (machine.startSeconds ?? 10) * 1_000;
    }
  }
}

function pass(body: Body, now: number, tell: Tell): void {
  if (now < body.until) return;
  if (body.standing.at === "ending") {
    body.standing = { at: "evicted", since: now };
    tell("gone", body.engine.id);
  } else if (body.standing.at === "starting") {
    body.standing = { at: "running" };
    tell("back", body.engine.id);
  }
}

function seenAs(
  { engine, age, standing, evictedAt }: Body,
  now: number,
  limits: GovernorLimits,
): GovernedEngine {
  const evictions = evictedAt.filter((at) => now - at < limits.forgetMs).length;
  return { ...engine, age, standing, evictions };
}

/** Less than 12 % available is a warning, less than 6 % critical; what does not fit is swapped out. */
function look(machine: Machine, bodies: readonly Body[], now: number): PressureReading {
  const held = bodies.filter(({ standing }) => ["running", "starting", "ending"].includes(standing.at));
  const usedBytes =
    machine.foreign(now / 1_000) * GIB + held.reduce((sum, { engine }) => sum + engine.bytes, 0);
  const totalBytes = machine.totalGiB * GIB;
  const share = (totalBytes - usedBytes) / totalBytes;
  return {
    at: now,
    pressure: share < 0.06 ? "Critical" : share < 0.12 ? "Warning" : "Normal",
    totalBytes,
    availableBytes: Math.max(0, totalBytes - usedBytes),
    swapUsedBytes: Math.max(0, usedBytes - totalBytes),
  };
}
