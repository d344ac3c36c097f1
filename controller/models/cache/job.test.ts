import fc from "fast-check";
import { expect, test } from "vitest";
import { defaultRemedy } from "../../../src/api/errors.ts";
import type { Job, Pod } from "../../../src/kube/workload-objects.ts";
import { type CacheProblem, describeFailure, podStartProblem } from "./job.ts";

test("messages of a pod and a Job are truncated to 1,000 characters", () => {
  const isShort = ({ code, message }: CacheProblem) => {
    const remedy = `; ${defaultRemedy(code).summary}`;
    return message.endsWith(remedy) && message.length <= 1_000 + remedy.length;
  };
  fc.assert(
    fc.property(fc.string({ minLength: 1 }), fc.nat(3_000), (one, times) => {
      const message = one.repeat(times);
      const pod = (status: NonNullable<Pod["status"]>): Pod => ({
        metadata: { name: "p" },
        spec: { containers: [] },
        status,
      });
      const state = { waiting: { reason: "ErrImagePull", message } };
      const waiting = podStartProblem(pod({ containerStatuses: [{ name: "fetch", state }] }));
      expect(waiting).toSatisfy(isShort);
      const failed = { type: "Failed", status: "True", reason: "BackoffLimitExceeded", message };
      const job = { metadata: { name: "j" }, status: { conditions: [failed] } } as unknown as Job;
      expect(describeFailure(undefined, job, pod({ reason: message, message }))).toSatisfy(isShort);
    }),
  );
});
