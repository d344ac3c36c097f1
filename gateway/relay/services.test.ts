import { expect, test } from "vitest";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import { RelayedServices } from "./services.ts";

const [A, B] = ["a", "b"].map((digit) => digit.repeat(64)) as [string, string];

interface Door {
  readonly name: string;
  readonly port?: number;
  readonly createdAt?: string;
  readonly manager?: string;
}

function door({
  name,
  port,
  createdAt = "2026-01-02T00:00:00Z",
  manager = "controller.metalbridge.dev",
}: Door): EndpointSlice {
  return {
    metadata: {
      namespace: "apps",
      name: `${name}-relay`,
      creationTimestamp: createdAt,
      labels: {
        "metalbridge.dev/relayed-service": name,
        "endpointslice.kubernetes.io/managed-by": manager,
      },
    },
    addressType: "IPv4",
    ports: port === undefined ? [] : [{ name: "http", port }],
  };
}

function replica(service: string, address: string, fingerprints?: string, ready = true): EndpointSlice {
  const annotations: Record<string, string> =
    fingerprints === undefined ? {} : { "metalbridge.dev/fingerprints": fingerprints };
  return {
    metadata: {
      ...{ namespace: "apps", name: `${service}-${address}`, annotations },
      labels: { "metalbridge.dev/service": service },
    },
    addressType: "IPv4",
    endpoints: [{ addresses: [address], conditions: { ready } }],
    ports: [{ name: "http", port: 8080 }],
  };
}

test.each<[string, readonly Door[], readonly string[], RegExp | undefined]>([
  [
    "services have their own ports",
    [
      { name: "a", port: 20_000 },
      { name: "b", port: 29_999 },
    ],
    ["20000 apps/a", "29999 apps/b"],
    undefined,
  ],
  [
    "the older of two slices has the port",
    [
      { name: "a", port: 20_000 },
      { name: "b", port: 20_000, createdAt: "2026-01-01T00:00:00Z" },
    ],
    ["20000 apps/b"],
    /port 20000 belongs to apps\/b/,
  ],
  [
    "of two of the same age, the first name has it",
    [
      { name: "b", port: 20_000 },
      { name: "a", port: 20_000 },
    ],
    ["20000 apps/a"],
    /belongs to apps\/a/,
  ],
  ["a port of another part is refused", [{ name: "a", port: 9_469 }], [], /9469 must be from 20000 to 29999/],
  ["a slice without a port is refused", [{ name: "a" }], [], /its port is missing/],
  ["a slice of another manager is ignored", [{ name: "a", port: 20_000, manager: "me" }], [], undefined],
])("%s", (_, doors, expected, problem) => {
  const services = new RelayedServices();
  for (const one of doors) services.setDoor(`apps/${one.name}-relay`, door(one));
  const { ports, problems } = services.ports();
  expect(ports.map(({ port, service }) => `${port} ${service}`).sort()).toEqual(expected);
  expect([...problems.values()].join()).toMatch(problem ?? /^$/);
});

test("a service has its ready sealed replicas, and keeps its cluster while others change", () => {
  const services = new RelayedServices();
  services.setDoor("apps/a-relay", door({ name: "a", port: 20_000 }));
  services.setDoor("apps/b-relay", door({ name: "b", port: 20_001 }));
  const set = (slice: EndpointSlice) => services.setReplica(`apps/${slice.metadata.name}`, slice, undefined);
  const clusters = () => services.clusters(services.ports().ports);
  set(replica("a", "192.0.2.1", A));
  set(replica("a", "192.0.2.2", `${B}`, false));
  set(replica("a", "192.0.2.3"));
  set(replica("a", "192.0.2.4", "malformed"));
  set(replica("other", "192.0.2.5", A));
  const [a, b] = clusters();
  expect(a).toMatchObject({
    name: "apps/a",
    endpoints: [{ address: "192.0.2.1", port: 8080, fingerprints: [A] }],
    fingerprints: [A, B],
  });
  expect(b).toMatchObject({ name: "apps/b", endpoints: [], fingerprints: [] });
  set(replica("b", "192.0.2.6", A));
  expect(clusters()[0]).toBe(a);
  expect(clusters()[1]?.endpoints).toHaveLength(1);
  services.setReplica("apps/a-192.0.2.1", undefined, replica("a", "192.0.2.1", A));
  expect(clusters()[0]).toMatchObject({ endpoints: [], fingerprints: [B] });
});
