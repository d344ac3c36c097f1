/** The replica that a request got, its caller and its wait. Encoded, it travels in Envoy's metadata to the access log, so it survives a restart of this process. Pure. */
import { z } from "zod";
import { parseJson } from "../../src/util/parse-json.ts";

const assignmentSchema = z.object({
  /** Id of the key or user. */
  caller: z.string(),
  /** `namespace/name` of the service. */
  model: z.string(),
  /** Host or node of the replica that Envoy tries first. */
  host: z.string(),
  /** Time in the queue. */
  waitedMs: z.number(),
  /** The service was unloaded by spec.idle when the request arrived. */
  hasWoken: z.boolean().optional(),
  /** The client's header `traceparent`, if it is valid. */
  traceParent: z.string().optional(),
});

export type Assignment = Readonly<z.infer<typeof assignmentSchema>>;

export function encodeAssignment(assignment: Assignment): string {
  const text = JSON.stringify({ ...assignment, waitedMs: Math.round(assignment.waitedMs) });
  return Buffer.from(text).toString("base64url");
}

/** Undefined for text that `encodeAssignment` did not return. */
export function decodeAssignment(text: string): Assignment | undefined {
  return assignmentSchema.safeParse(parseJson(Buffer.from(text, "base64url").toString())).data;
}
