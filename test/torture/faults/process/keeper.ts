/** The shell that keeps an engine is killed, or frozen; the engine itself is not touched. */
import { engineOf, type Fault, send } from "../fault.ts";

export const keeperKill: Fault = async (context, planned) => {
  const keeper = keeperOf(context, planned);
  if (keeper === undefined) return { at: "skipped", why: "no keeper there" };
  send(keeper.pid, "SIGKILL");
  return { at: "done", detail: `keeper ${keeper.pid} of replica ${keeper.uid}` };
};

export const keeperPause: Fault = async (context, planned) => {
  const keeper = keeperOf(context, planned);
  if (keeper === undefined) return { at: "skipped", why: "no keeper there" };
  send(keeper.pid, "SIGSTOP");
  return {
    at: "done",
    detail: `keeper ${keeper.pid} of replica ${keeper.uid}`,
    heal: async () => {
      if (context.engines.keepers().get(keeper.dir) === keeper.pid) send(keeper.pid, "SIGCONT");
    },
  };
};

function keeperOf(context: Parameters<Fault>[0], planned: Parameters<Fault>[1]) {
  const engine = engineOf(context, planned);
  const pid = engine === undefined ? undefined : context.engines.keepers().get(engine.dir);
  return engine === undefined || pid === undefined ? undefined : { pid, dir: engine.dir, uid: engine.uid };
}
