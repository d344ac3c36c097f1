import { expect, test } from "vitest";
import { hostSchema } from "../../src/api/host.ts";
import { lostOperations } from "./lost.ts";

const host = (annotations?: Record<string, string>) =>
  hostSchema.parse({
    metadata: {
      name: "mini-1",
      uid: "h1",
      resourceVersion: "5",
      annotations,
    },
  });

test("the annotation joins others, whoever writes them meanwhile", () => {
  expect(lostOperations(host({ a: "b" }), "2026-03-01T12:00:00.000Z")).toEqual([
    { op: "test", path: "/metadata/uid", value: "h1" },
    { op: "add", path: "/metadata/annotations/metalbridge.dev~1lost", value: "2026-03-01T12:00:00.000Z" },
  ]);
});

test("the first annotation of a host is written only while there is still none", () => {
  expect(lostOperations(host(), "2026-03-01T12:00:00.000Z")).toEqual([
    { op: "test", path: "/metadata/uid", value: "h1" },
    { op: "test", path: "/metadata/resourceVersion", value: "5" },
    {
      op: "add",
      path: "/metadata/annotations",
      value: { "metalbridge.dev/lost": "2026-03-01T12:00:00.000Z" },
    },
  ]);
});
