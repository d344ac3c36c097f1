/** kill -9 of a host's gate: every request through it is cut, and new ones are refused until another one listens. */

import { send } from "../../../bed/signal.ts";
import { type Fault, hostOf } from "../fault.ts";

export const gateKill: Fault = async (context, planned) => {
  const wanted = hostOf(context, planned).name;
  context.engines.look();
  const gates = [...context.engines.gates()];
  // A host without a replica has none.
  const [host, pid] = gates.find(([name]) => name === wanted) ?? gates[0] ?? [];
  if (host === undefined || pid === undefined) return { at: "skipped", why: "no gate there" };
  context.recorder.note({ type: "part", part: "gate", host, change: "ended" });
  send(pid, "SIGKILL");
  return { at: "done", detail: `gate ${pid}` };
};
