/** SIGSTOP of an engine: alive, holds its port, answers no request. */
import { engineOf, type Fault, send } from "../fault.ts";

export const enginePause: Fault = async (context, planned) => {
  const engine = engineOf(context, planned);
  if (engine === undefined) return { at: "skipped", why: "no engine there" };
  const { host, uid, pid } = engine;
  context.recorder.note({ type: "engine", change: "paused", host, uid, pid });
  send(pid, "SIGSTOP");
  return {
    at: "done",
    detail: `engine ${pid} of replica ${uid}`,
    heal: async () => {
      // A hung engine was killed and replaced meanwhile; its pid is then no longer an engine's.
      if (context.engines.engines().some((one) => one.pid === pid)) send(pid, "SIGCONT");
      context.recorder.note({ type: "engine", change: "resumed", host, uid, pid });
    },
  };
};
