/** What the gateway must know at the end of a request. It travels in Envoy's metadata, so it survives a restart of this process. Pure. */
import { z } from "zod";

/** Tickets of a gateway without traces have no last field. */
const ticketSchema = z.tuple([z.string(), z.string(), z.string(), z.string(), z.number()], z.string());

export interface Ticket {
  /** Identifier of the key or user. */
  readonly caller: string;
  /** `namespace/name` of the service. */
  readonly model: string;
  /** First address that Envoy tries. */
  readonly address: string;
  /** Host or node of that address. */
  readonly place: string;
  /** Time in the queue. */
  readonly waitedMs: number;
  /** The client's header `traceparent`, if it is valid. */
  readonly traceParent: string | undefined;
}

export function renderTicket(ticket: Ticket): string {
  const { caller, model, address, place, waitedMs, traceParent } = ticket;
  const fields = [caller, model, address, place, Math.round(waitedMs), traceParent ?? []].flat();
  return Buffer.from(JSON.stringify(fields)).toString("base64url");
}

/** Undefined for anything that `renderTicket` has not made. */
export function parseTicket(text: string): Ticket | undefined {
  try {
    const fields = ticketSchema.parse(JSON.parse(Buffer.from(text, "base64url").toString()));
    const [caller, model, address, place, waitedMs, traceParent] = fields;
    return { caller, model, address, place, waitedMs, traceParent };
  } catch {
    return undefined;
  }
}
