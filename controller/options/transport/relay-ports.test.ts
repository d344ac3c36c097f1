import { expect, test } from "vitest";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import { createRelayPorts } from "./relay-ports.ts";

function sliceOf(uid: string, port: number, created = "2026-11-30T00:00:00Z"): EndpointSlice {
  const labels = { "metalbridge.dev/service-uid": uid };
  return {
    metadata: { name: uid, uid, labels, creationTimestamp: created },
    addressType: "IPv4",
    ports: [{ port }],
  };
}

test("every service has a port of its own, before and after the watch shows its slice", () => {
  let now = 0;
  const slices: EndpointSlice[] = [];
  const { portOf } = createRelayPorts(
    () => slices,
    () => now,
  );
  const seen = new Set<number | undefined>();
  for (let index = 0; index < 1_000; index += 1) {
    const uid = `uid-${index}`;
    const port = portOf(uid, undefined);
    expect(portOf(uid, undefined)).toBe(port);
    if (index % 2 === 0) slices.push(sliceOf(uid, port ?? 0));
    seen.add(port);
    now += 10;
  }
  expect(seen.size).toBe(1_000);
  expect([...seen].every((port = 0) => port >= 20_000 && port < 30_000)).toBe(true);
});

test("of two slices with one port the younger gets another", () => {
  const [older, younger] = [sliceOf("a", 20_001), sliceOf("b", 20_001, "2026-11-30T00:00:01Z")];
  const { portOf } = createRelayPorts(
    () => [older, younger],
    () => 0,
  );
  expect(portOf("a", older)).toBe(20_001);
  expect(portOf("b", younger)).not.toBe(20_001);
});

test("no port is left", () => {
  const slices = Array.from({ length: 10_000 }, (_, index) => sliceOf(`uid-${index}`, 20_000 + index));
  const { portOf } = createRelayPorts(
    () => slices,
    () => 0,
  );
  expect(portOf("new", undefined)).toBeUndefined();
  expect(portOf("uid-7", slices[7])).toBe(20_007);
});

test("a port outside of the range is replaced", () => {
  const slice = sliceOf("a", 9_464);
  const { portOf } = createRelayPorts(
    () => [slice],
    () => 0,
  );
  expect(portOf("a", slice)).toBeGreaterThanOrEqual(20_000);
});
