/** The host's disk fills up to the last byte. */
import { type Fault, hostOf } from "../fault.ts";

export const diskFull: Fault = async (context, planned) => {
  const host = hostOf(context, planned);
  host.fillDisk();
  context.recorder.note({ type: "disk", host: host.name, isFull: true });
  return {
    at: "done",
    detail: host.stateDir,
    heal: async () => {
      host.freeDisk();
      context.recorder.note({ type: "disk", host: host.name, isFull: false });
    },
  };
};
