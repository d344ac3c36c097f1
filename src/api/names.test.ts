import fc from "fast-check";
import { expect, test } from "vitest";
import {
  REPLICA_NAME_MAX,
  replicaName,
  revisionName,
  SERVICE_NAME_MAX,
  serviceName,
  sliceName,
} from "./names.ts";

const LABEL = /^[a-z]([-a-z0-9]*[a-z0-9])?$/;
const parts = { service: "chat", serviceUid: "uid-1", ordinal: 0, revision: "0123456789", attempt: 0 };

test("a replica is named after its service, its ordinal and a hash", () => {
  expect(replicaName(parts)).toMatch(/^chat-0-[0-9a-f]{10}$/);
  expect(replicaName(parts)).toBe(replicaName({ ...parts }));
});

test("uid, ordinal, revision and attempt each make another name", () => {
  const names = [
    parts,
    { ...parts, serviceUid: "uid-2" },
    { ...parts, ordinal: 1 },
    { ...parts, revision: "9876543210" },
    { ...parts, attempt: 1 },
  ].map(replicaName);
  expect(new Set(names).size).toBe(names.length);
});

test("the longest service name gives legal names, and different services keep different ones", () => {
  const service = `s${"x".repeat(SERVICE_NAME_MAX - 1)}`;
  const longest = replicaName({ ...parts, service, ordinal: 999 });
  expect(longest).toHaveLength(REPLICA_NAME_MAX);
  expect(longest).toMatch(LABEL);
  expect(longest).not.toBe(replicaName({ ...parts, service, ordinal: 999, serviceUid: "uid-2" }));
  expect(sliceName(longest)).toBe(longest);
  expect(serviceName(service).length).toBeLessThanOrEqual(63);
  expect(revisionName(service, parts.revision).length).toBeLessThanOrEqual(63);
});

test("any legal service name gives a legal replica name", () => {
  const label = fc.stringMatching(/^[a-z]([-a-z0-9]{0,48}[a-z0-9])?$/);
  fc.assert(
    fc.property(label, fc.nat(200), (service, ordinal) => {
      const name = replicaName({ ...parts, service, ordinal });
      return LABEL.test(name) && name.length <= REPLICA_NAME_MAX;
    }),
  );
});
