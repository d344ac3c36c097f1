import { expect, test } from "vitest";
import type { Preflight } from "./judge.ts";
import { admissionResponse, readReview, serviceOf } from "./review.ts";

const object = (more: object = {}) => ({
  apiVersion: "metalbridge.dev/v1alpha1",
  kind: "InferenceService",
  metadata: { name: "chat" },
  spec: { modelRef: "m" },
  ...more,
});
const review = (more: object = {}) => ({
  uid: "1",
  operation: "CREATE",
  namespace: "team",
  kind: { kind: "InferenceService" },
  object: object(),
  ...more,
});
const textOf = (request: unknown) =>
  JSON.stringify({ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request });
const judged = (request: object) => {
  const read = readReview(textOf(request));
  return read && serviceOf(read);
};
const NOWHERE: Preflight = { at: "nowhere", message: "needs more", mayGrow: false };

test("a new service and a changed spec are judged, in the namespace of the request", () => {
  expect(judged(review())?.metadata).toMatchObject({ name: "chat", namespace: "team" });
  const oldObject = object({ spec: { modelRef: "other" } });
  expect(judged(review({ operation: "UPDATE", oldObject }))).toBeDefined();
  expect(judged(review({ object: object({ metadata: { generateName: "chat-" } }) }))).toBeDefined();
});

test.each([
  ["a spec that stays", review({ operation: "UPDATE", oldObject: object() })],
  ["a deletion", review({ operation: "DELETE", object: null, oldObject: object() })],
  [
    "a service that is being deleted",
    review({ object: object({ metadata: { name: "c", deletionTimestamp: "2026-01-01T00:00:00Z" } }) }),
  ],
  ["another kind", review({ kind: { kind: "Model" } })],
  ["a spec that the schema refuses", review({ object: object({ spec: { modelRef: 5 } }) })],
])("%s is not judged", (_, request) => {
  expect(judged(request)).toBeUndefined();
});

test.each([
  ["no JSON", "hello"],
  ["an empty body", ""],
  ["another version", textOf(review()).replace("/v1", "/v1beta1")],
  ["no request", textOf(undefined)],
  ["a uid that is a number", textOf(review({ uid: 5 }))],
])("%s is no review", (_, text) => {
  expect(readReview(text)).toBeUndefined();
});

test("Deny refuses and Warn warns with the same message, and everything else is allowed", () => {
  const message = "the model fits no machine: it needs more";
  expect(admissionResponse("1", "Deny", NOWHERE)).toMatchObject({
    response: { uid: "1", allowed: false, status: { code: 403, message } },
  });
  expect(admissionResponse("1", "Warn", NOWHERE)).toMatchObject({
    response: { allowed: true, warnings: [message] },
  });
  for (const mode of ["Warn", "Deny"] as const)
    expect(admissionResponse("1", mode, { ...NOWHERE, mayGrow: true })).toMatchObject({
      response: { allowed: true, warnings: ["the model fits no machine that exists: it needs more"] },
    });
  const fine: readonly (Preflight | undefined)[] = [
    undefined,
    { at: "fits", on: "mac-1" },
    { at: "unknown", why: "?" },
  ];
  for (const verdict of fine)
    expect(admissionResponse("1", "Deny", verdict)).toMatchObject({ response: { uid: "1", allowed: true } });
  const long = admissionResponse("1", "Warn", { ...NOWHERE, message: "x".repeat(5_000) }) as {
    response: { warnings: string[] };
  };
  expect(long.response.warnings[0]?.length).toBe(1_024);
});
