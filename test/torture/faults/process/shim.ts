/** The shell that keeps an engine is killed, or frozen; the engine itself is not touched. */

import { send } from "../../../bed/signal.ts";
import { engineOf, type Fault } from "../fault.ts";

export const shimKill: Fault = async (context, planned) => {
  const shim = shimOf(context, planned);
  if (shim === undefined) return { at: "skipped", why: "no shim there" };
  send(shim.pid, "SIGKILL");
  return { at: "done", detail: `shim ${shim.pid} of replica ${shim.uid}` };
};

export const shimPause: Fault = async (context, planned) => {
  const shim = shimOf(context, planned);
  if (shim === undefined) return { at: "skipped", why: "no shim there" };
  send(shim.pid, "SIGSTOP");
  return {
    at: "done",
    detail: `shim ${shim.pid} of replica ${shim.uid}`,
    heal: async () => {
      if (context.engines.shims().get(shim.dir) === shim.pid) send(shim.pid, "SIGCONT");
    },
  };
};

function shimOf(context: Parameters<Fault>[0], planned: Parameters<Fault>[1]) {
  const engine = engineOf(context, planned);
  const pid = engine === undefined ? undefined : context.engines.shims().get(engine.dir);
  return engine === undefined || pid === undefined ? undefined : { pid, dir: engine.dir, uid: engine.uid };
}
