import { expect, test } from "vitest";
import type { KubeEvent } from "../../../src/kube/objects.ts";
import { newestFailure } from "./problems.ts";

const FAILURES = ["FailedBinding", "ProvisioningFailed"];

/** In any order; `version` is that of the last repetition. */
function event(reason: string, version: number): KubeEvent {
  const metadata = { name: reason, namespace: "n", resourceVersion: String(version) };
  return { metadata, eventTime: "", reason, note: `note of ${reason}` };
}

test("a failure before a later success is no problem, and a repeated failure is", () => {
  const failed = event("ProvisioningFailed", 90);
  expect(newestFailure([event("WaitForFirstConsumer", 100), failed], FAILURES)).toBeUndefined();
  expect(newestFailure([event("WaitForFirstConsumer", 80), failed], FAILURES)).toBe(failed.note);
  expect(newestFailure([], FAILURES)).toBeUndefined();
});

test("an attempt in progress does not hide that the previous one has failed", () => {
  const events = [
    event("ProvisioningFailed", 90),
    event("Provisioning", 101),
    event("ExternalProvisioning", 110),
  ];
  expect(newestFailure(events, FAILURES)).toBe("note of ProvisioningFailed");
});
