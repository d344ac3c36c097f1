import { expect, test } from "vitest";
import { HOSTS, INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import type { FailureKind } from "../../src/kube/types.ts";
import { explainAttempt } from "./failure.ts";

const failure = (kind: FailureKind) => ({ kind, status: 0, reason: "x", message: "said the server" });

test("a missing right is named as it can be asked for", () => {
  const attempt = { verb: "patch", kind: INFERENCE_SERVICES, name: "chat", namespace: "team" } as const;
  const error = explainAttempt(attempt, failure("forbidden"));
  expect(error.message).toBe("cannot patch InferenceService chat: said the server");
  expect(error.remedy.command).toBe("kubectl auth can-i patch inferenceservices.metalbridge.dev -n team");
  const host = explainAttempt({ verb: "list", kind: HOSTS }, failure("forbidden"));
  expect(host.remedy.command).toBe("kubectl auth can-i list hosts.metalbridge.dev");
});

test.each(["unreachable", "unauthorized", "conflict"] as const)(
  "%s: no automatic retry is promised",
  (kind) => {
    const { remedy } = explainAttempt({ verb: "get", kind: HOSTS, name: "mini-1" }, failure(kind));
    expect(`${remedy.summary} ${remedy.command}`).not.toMatch(/automatically/);
  },
);
