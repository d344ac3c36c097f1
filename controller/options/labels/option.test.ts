import { expect, test } from "vitest";
import { hostSchema } from "../../../src/api/host.ts";
import { handlersOf } from "./option.ts";

test("memory that a Mac reports later enqueues its labels, and free memory does not", () => {
  const planned: string[] = [];
  const { onHost } = handlersOf((key) => planned.push(key));
  const mac = (memory?: object) =>
    hostSchema.parse({ metadata: { name: "mac-1" }, status: { info: { os: "darwin" }, memory } });
  onHost?.("mac-1", mac({ totalBytes: 8, freeBytes: 4 }), mac());
  expect(planned).toEqual(["hosts/mac-1"]);
  onHost?.("mac-1", mac({ totalBytes: 8, freeBytes: 2 }), mac({ totalBytes: 8, freeBytes: 4 }));
  expect(planned).toEqual(["hosts/mac-1"]);
});
