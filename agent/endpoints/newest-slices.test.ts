import { expect, test } from "vitest";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import { createNewestSlices } from "./newest-slices.ts";

function slice(name: string, resourceVersion: string): EndpointSlice {
  return { metadata: { namespace: "default", name, uid: `u-${name}`, resourceVersion }, addressType: "IPv4" };
}

test("within one watch the newer version wins, and a list replaces everything known before", () => {
  const slices = createNewestSlices();
  expect(slices.listed([slice("a", "5"), slice("b", "5")])).toEqual(["default/a", "default/b"]);
  slices.seen("default/a", slice("a", "9"));
  slices.seen("default/a", slice("a", "7"));
  expect(slices.get("default/a")?.metadata.resourceVersion).toBe("9");
  // Put back to older data, in which b does not exist yet.
  expect(slices.listed([slice("a", "5")])).toEqual(["default/a", "default/b"]);
  expect(slices.get("default/a")?.metadata.resourceVersion).toBe("5");
  expect(slices.get("default/b")).toBeUndefined();
  expect(slices.listed([slice("a", "5")])).toEqual([]);
});
