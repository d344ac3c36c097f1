/** Parses the request of the API server to a validating webhook, and builds the response. Pure. */
import { z } from "zod";
import { type InferenceService, inferenceServiceSchema } from "../../../src/api/inference-service/index.ts";
import { isDeepEqual } from "../../../src/util/deep-equal.ts";
import { truncate } from "../../../src/util/text.ts";
import type { Preflight } from "./judge.ts";

export const PREFLIGHT_MODES = ["Off", "Warn", "Deny"] as const;
export type PreflightMode = (typeof PREFLIGHT_MODES)[number];

const objectSchema = z.looseObject({
  metadata: z.looseObject({ deletionTimestamp: z.string().optional() }),
  spec: z.unknown(),
});
const reviewSchema = z.object({
  apiVersion: z.literal("admission.k8s.io/v1"),
  kind: z.literal("AdmissionReview"),
  request: z.object({
    uid: z.string().max(253),
    kind: z.object({ kind: z.string() }),
    operation: z.string(),
    namespace: z.string().optional(),
    object: objectSchema.nullish(),
    oldObject: objectSchema.nullish(),
  }),
});

export type Review = z.output<typeof reviewSchema>["request"];

/** Undefined if it is no AdmissionReview. */
export function readReview(text: string): Review | undefined {
  try {
    return reviewSchema.safeParse(JSON.parse(text)).data?.request;
  } catch {
    return undefined;
  }
}

/** The service to judge; undefined if the request does not change the spec, or the CRD's rules reject it. */
export function serviceOf(review: Review): InferenceService | undefined {
  const { kind, operation, object, oldObject, namespace } = review;
  if (kind.kind !== "InferenceService" || (operation !== "CREATE" && operation !== "UPDATE"))
    return undefined;
  if (object === null || object === undefined || object.metadata.deletionTimestamp !== undefined)
    return undefined;
  if (operation === "UPDATE" && isDeepEqual(object.spec, oldObject?.spec)) return undefined;
  // With generateName there is no name yet.
  const metadata = { name: "service", ...object.metadata, namespace };
  return inferenceServiceSchema.safeParse({ ...object, metadata }).data;
}

/** Well below 4096 bytes, after which the API server truncates the warnings of a response. */
const MAX_TEXT = 1_024;

export function admissionResponse(uid: string, mode: PreflightMode, verdict: Preflight | undefined): object {
  return {
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    response: { uid, ...responseTo(mode, verdict) },
  };
}

/** In both modes, a service that only does not fit the current nodes gets a warning. */
function responseTo(mode: PreflightMode, verdict: Preflight | undefined): object {
  if (verdict?.at !== "nowhere" || mode === "Off") return { allowed: true };
  const { message, mayGrow } = verdict;
  const machine = mayGrow ? "no machine that exists" : "no machine";
  const text = truncate(`the model fits ${machine}: it ${message}`, MAX_TEXT);
  if (mode === "Warn" || mayGrow) return { allowed: true, warnings: [text] };
  return { allowed: false, status: { code: 403, reason: "Forbidden", message: text } };
}
