import { expect, test } from "vitest";
import type { EnvoyCluster } from "../types.ts";
import { assignmentName, Editions } from "./editions.ts";

const [A, B, C] = ["a", "b", "c"].map((digit) => digit.repeat(64)) as [string, string, string];

/** A cluster with an endpoint per entry: its certificates, or undefined for a plain one. The port is the position. */
function cluster(...hosts: readonly (readonly string[] | undefined)[]): EnvoyCluster {
  const endpoints = hosts.map((fingerprints, index) => ({
    ...{ address: "192.0.2.1", port: index + 1, isHealthy: true },
    fingerprints,
  }));
  return { name: "apps/chat", endpoints, fingerprints: hosts.flatMap((one) => one ?? []) };
}

test.each([
  [
    "a plain cluster gets no endpoint that is sealed by now",
    cluster(undefined),
    cluster(undefined, [A]),
    [1],
  ],
  [
    "a plain cluster of which all endpoints are sealed by now gets none",
    cluster(undefined),
    cluster([A]),
    [],
  ],
  ["a cluster gets no endpoint with a new certificate", cluster([A]), cluster([A], [B]), [1]],
  ["a cluster gets an endpoint that presents one of its certificates", cluster([A]), cluster([A, B]), [1]],
  ["a cluster gets no endpoint whose certificate is replaced", cluster([A, B]), cluster([C]), []],
  ["a cluster gets endpoints that are plain by now", cluster([A]), cluster(undefined), [1]],
  ["a cluster gets what is left of its endpoints", cluster([A], [B]), cluster([A]), [1]],
] as const)("%s, until Envoy has replaced it", (_, before, after, ports) => {
  const editions = new Editions();
  editions.update([before], () => true);
  const assignments = editions.update([after], () => true);
  expect(assignments.get(assignmentName(before))?.addresses).toEqual(
    ports.map((port) => `192.0.2.1:${port}`),
  );
  expect(assignments.get(assignmentName(after))?.addresses).toHaveLength(after.endpoints.length);
});

test("an edition ends when Envoy no longer asks for it, or without its cluster", () => {
  const editions = new Editions();
  const [before, after] = [cluster([A]), cluster([B])];
  editions.update([before], () => true);
  expect([...editions.update([after], () => false).keys()]).toEqual([assignmentName(after)]);
  expect(editions.numberOf(assignmentName(before))).toBeUndefined();
  expect([...editions.update([], () => true).keys()]).toEqual([]);
});

test("an edition that returns is the newest again", () => {
  const editions = new Editions();
  const [first, second] = [cluster([A]), cluster([B])];
  const numbers = [first, second, first].map((one) => {
    editions.update([one], () => true);
    return editions.numberOf(assignmentName(one)) ?? 0;
  });
  expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
  expect(new Set(numbers).size).toBe(3);
});

test("the same endpoints in the same cluster keep the name", () => {
  expect(assignmentName(cluster(undefined))).toBe("apps/chat");
  expect(assignmentName(cluster([A, B]))).toBe(assignmentName(cluster([A], [B])));
  expect(assignmentName(cluster([A]))).not.toBe(assignmentName(cluster([B])));
});
