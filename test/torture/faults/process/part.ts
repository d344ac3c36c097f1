/** kill -9, freeze, upgrade and a stepped clock: what happens to agents and to the controller alike. */
import type { ControlledPart } from "../../bed/process-control.ts";
import type { Recorder } from "../../observe/recorder.ts";
import { type Fault, type FaultContext, hostOf, type Injected } from "../fault.ts";

type Victim = { readonly part: "agent"; readonly host: string } | { readonly part: "controller" };

export const agentKill: Fault = (context, planned) => {
  const host = hostOf(context, planned);
  return kill(context.recorder, host.agent, { part: "agent", host: host.name });
};

export const controllerKill: Fault = ({ bed, recorder }) =>
  kill(recorder, bed.controller, { part: "controller" });

export const agentPause: Fault = (context, planned) => {
  const host = hostOf(context, planned);
  return pause(context.recorder, host.agent, { part: "agent", host: host.name });
};

export const controllerPause: Fault = ({ bed, recorder }) =>
  pause(recorder, bed.controller, { part: "controller" });

export const agentClockStep: Fault = (context, planned) =>
  stepClock(hostOf(context, planned).agent, planned.chance);

export const controllerClockStep: Fault = ({ bed }, planned) => stepClock(bed.controller, planned.chance);

/** The other version over the state of this one: ended in good order, as launchd does it. */
export const agentUpgrade: Fault = async (context, planned) => {
  const { agent, name: host } = hostOf(context, planned);
  const victim: Victim = { part: "agent", host };
  const [one, other] = context.bed.releases;
  const next = agent.release().version === one.version ? other : one;
  note(context.recorder, victim, "ended");
  await agent.kill("SIGTERM");
  agent.install(next);
  return { at: "done", detail: `to ${next.version}`, heal: async () => start(context, agent, victim) };
};

async function kill(recorder: Recorder, part: ControlledPart, victim: Victim): Promise<Injected> {
  const pid = part.pid();
  note(recorder, victim, "ended");
  await part.kill("SIGKILL");
  return { at: "done", detail: `pid ${pid}`, heal: async () => start({ recorder }, part, victim) };
}

async function pause(recorder: Recorder, part: ControlledPart, victim: Victim): Promise<Injected> {
  const pid = part.pid();
  note(recorder, victim, "paused");
  part.freeze();
  return {
    at: "done",
    detail: `pid ${pid}`,
    heal: async () => {
      part.thaw();
      note(recorder, victim, "resumed");
    },
  };
}

const HOUR_MS = 3_600_000;
/** A day back, an hour back, an hour on, a year on. */
const STEPS_MS = [-24 * HOUR_MS, -HOUR_MS, HOUR_MS, 365 * 24 * HOUR_MS];

async function stepClock(part: ControlledPart, chance: number): Promise<Injected> {
  const offsetMs = STEPS_MS[Math.floor(chance * STEPS_MS.length)] ?? HOUR_MS;
  part.stepClock(offsetMs);
  return { at: "done", detail: `${offsetMs / HOUR_MS} h`, heal: async () => part.stepClock(0) };
}

function start({ recorder }: Pick<FaultContext, "recorder">, part: ControlledPart, victim: Victim): void {
  part.start();
  note(recorder, victim, "started");
}

function note(recorder: Recorder, victim: Victim, change: "started" | "ended" | "paused" | "resumed"): void {
  recorder.note({ type: "part", ...victim, change });
}
