import { afterEach, expect, test, vi } from "vitest";
import { requestJson } from "./request.ts";

afterEach(() => vi.unstubAllGlobals());

test("all fields that the API server refuses are known, however long its answer is", async () => {
  const causes = Array.from({ length: 40 }, (_, index) => ({
    field: `spec.field${index}`,
    message: `Invalid value: "string": ${"x".repeat(100)}`,
  }));
  const body = { kind: "Status", reason: "Invalid", message: "no", details: { causes } };
  vi.stubGlobal("fetch", async () => Response.json(body, { status: 422 }));
  await expect(requestJson("/x")).rejects.toMatchObject({ code: "Invalid", message: "no", causes });
});
