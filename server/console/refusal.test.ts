import { expect, test } from "vitest";
import type { MetalbridgeError } from "../../src/api/errors.ts";
import { failureOfResponse } from "../../src/kube/errors.ts";
import { unwrapAnswer } from "./refusal.ts";

const refusalOf = (message: string): MetalbridgeError => {
  const status = JSON.stringify({ kind: "Status", reason: "Forbidden", code: 403, message });
  try {
    unwrapAnswer({ ok: false, error: failureOfResponse(403, {}, status) });
  } catch (error) {
    return error as MetalbridgeError;
  }
  throw new Error("it was not refused");
};

test("a missing right is named with the role that has it", () => {
  const message =
    'secrets is forbidden: User "ada" cannot list resource "secrets" in API group "" in the namespace "team-a"';
  const { code, message: shown, remedy } = refusalOf(message);
  expect([code, shown]).toEqual(["ApiForbidden", "You may not list secrets in namespace team-a."]);
  expect(remedy.summary).toContain("a role with this right");
});

test("the refusal of a policy keeps its words, and is not explained as a missing right", () => {
  const message =
    'inferenceservices "chat" is forbidden: ValidatingAdmissionPolicy denied request: set a limit';
  const { code, message: shown, remedy } = refusalOf(message);
  expect([code, shown]).toEqual(["ApiForbidden", message]);
  expect(remedy.summary).toContain("the rule that forbids it");
});
