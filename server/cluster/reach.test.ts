import { expect, test } from "vitest";
import type { ApiFailure } from "../../src/kube/types.ts";
import { createReach } from "./reach.ts";

const failure = (kind: ApiFailure["kind"]): ApiFailure => ({ kind, status: 0, reason: "", message: "" });

test("the API server is away from the first watch that gets no answer to the first that gets one", () => {
  let now = 1;
  const reach = createReach({ nowMs: () => now++ });
  const seen: (number | undefined)[] = [];
  reach.listen(() => seen.push(reach.awaySinceMs()));
  reach.answered();
  reach.failed(failure("forbidden"));
  reach.failed(failure("unreachable"));
  reach.failed(failure("unavailable"));
  reach.answered();
  reach.answered();
  expect(seen).toEqual([1, undefined]);
});
