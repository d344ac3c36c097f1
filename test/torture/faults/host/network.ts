/** The network of one host: gone, gone for the API server alone, slow, or with another address. */
import type { LinkState } from "../../bed/link.ts";
import { type Fault, hostOf } from "../fault.ts";

export const networkCut = link("cut", "every packet is dropped");
export const networkSlow = link("slow", "512 kbit/s behind a queue of 4 s");
export const networkLossy = link("lossy", "one packet in ten is lost each way");
/** The host cannot renew its Lease, while its engines answer as before. */
export const leaseExpiry = link("apiCut", "the API server alone cannot be reached");

function link(state: Exclude<LinkState, "whole">, detail: string): Fault {
  return async (context, planned) => {
    const host = hostOf(context, planned);
    const set = async (next: LinkState): Promise<void> => {
      await host.setLink(next);
      context.recorder.note({ type: "link", host: host.name, state: next });
    };
    await set(state);
    return { at: "done", detail, heal: () => set("whole") };
  };
}

export const addressChange: Fault = async (context, planned) => {
  const host = hostOf(context, planned);
  const { from, to } = await host.moveAddress();
  context.recorder.note({ type: "address", host: host.name, from, to });
  return { at: "done", detail: `${from} → ${to}` };
};
