/** kill -9 of an engine, as the kernel does when memory is low. */

import { send } from "../../../bed/signal.ts";
import { engineOf, type Fault, sharers } from "../fault.ts";

export const engineKill: Fault = async (context, planned) => {
  const engine = engineOf(context, planned);
  if (engine === undefined) return { at: "skipped", why: "no engine there" };
  const { pid } = engine;
  const harmed = sharers(context, pid);
  for (const { host, uid } of harmed)
    context.recorder.note({ type: "engine", change: "killed", host, uid, pid });
  send(pid, "SIGKILL");
  return { at: "done", detail: `engine ${pid} of replica ${harmed.map(({ uid }) => uid).join(", ")}` };
};
