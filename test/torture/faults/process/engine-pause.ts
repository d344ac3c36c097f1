/** SIGSTOP of an engine, or of the process of one model of a daemon: alive, holds its port, answers no request. */

import { isAlive, send } from "../../../bed/signal.ts";
import { engineOf, type Fault, type FaultContext, type Injected, sharers } from "../fault.ts";

export const enginePause: Fault = async (context, planned) => {
  const engine = engineOf(context, planned);
  if (engine === undefined) return { at: "skipped", why: "no engine there" };
  return pause(context, engine.pid, sharers(context, engine.pid));
};

/**
 * Its daemon answers as before what needs no model. Ollama waits 10 s for the frozen process with each request for its model, and
 * answers none for other models meanwhile: all are frozen, until the process has been killed.
 */
export const runnerPause: Fault = async (context, planned) => {
  const engine = engineOf(context, planned);
  if (engine?.runner === undefined) return { at: "skipped", why: "no loaded model there" };
  return pause(context, engine.runner, sharers(context, engine.pid));
};

const LOOK_MS = 100;

function pause({ recorder }: FaultContext, stopped: number, harmed: ReturnType<typeof sharers>): Injected {
  const note = (change: "paused" | "resumed"): void => {
    for (const { host, uid, pid } of harmed) recorder.note({ type: "engine", change, host, uid, pid });
  };
  let isOver = false;
  const resume = (): void => {
    clearInterval(timer);
    if (!isOver) note("resumed");
    isOver = true;
  };
  note("paused");
  send(stopped, "SIGSTOP");
  // A hung engine is killed and replaced meanwhile; its pid is then no longer an engine's.
  const timer = setInterval(() => {
    if (!isAlive(stopped)) resume();
  }, LOOK_MS);
  return {
    at: "done",
    detail: `process ${stopped} of replica ${harmed.map(({ uid }) => uid).join(", ")}`,
    heal: async () => {
      if (!isOver) send(stopped, "SIGCONT");
      resume();
    },
  };
}
