import { expect, test } from "vitest";
import { Replicas } from "./replicas.ts";

const LATER = 100_000;

function replicas(addresses: readonly string[], slots = 100): Replicas {
  const one = new Replicas();
  one.set(
    addresses.map((address) => ({ address, ip: address, port: 1, host: address })),
    slots,
    0,
  );
  return one;
}

const endpoints = (...addresses: string[]) =>
  addresses.map((address) => ({ address, ip: address, port: 1, host: address }));

test("the replica with the fewest requests is next", () => {
  const three = replicas(["a", "b", "c"]);
  const taken = Array.from({ length: 9 }, () => three.take(LATER)?.[0]);
  expect(["a", "b", "c"].map((address) => taken.filter((one) => one === address).length)).toEqual([3, 3, 3]);
});

test("no replica takes more than its slots", () => {
  const two = replicas(["a", "b"], 1);
  expect(two.take(LATER)).toEqual(["a", "b"]);
  expect(two.take(LATER)).toEqual(["b"]);
  expect(two.take(LATER)).toBeUndefined();
  two.release("a");
  expect(two.take(LATER)).toEqual(["a"]);
});

test("a replica that is three times as fast takes about three times the requests", () => {
  const two = replicas(["slow", "fast"]);
  for (const [address, tokensPerSecond] of [
    ["slow", 20],
    ["fast", 60],
  ] as const) {
    two.take(LATER);
    two.measured(address, tokensPerSecond);
    two.release(address);
  }
  const taken = Array.from({ length: 40 }, () => two.take(LATER)?.[0]);
  const fast = taken.filter((address) => address === "fast").length;
  expect(fast).toBeGreaterThanOrEqual(28);
  expect(fast).toBeLessThanOrEqual(32);
});

test("a replica that has just become ready gets its full share after ten seconds", () => {
  const one = replicas(["old"]);
  one.set(endpoints("old", "new"), 100, 1_000);
  const shareAt = (now: number) => {
    const taken = Array.from({ length: 20 }, () => one.take(now)?.[0] ?? "");
    for (const address of taken) one.release(address);
    return taken.filter((address) => address === "new").length;
  };
  expect(shareAt(1_000)).toBeLessThanOrEqual(5);
  expect(shareAt(11_000)).toBe(10);
});

test("requests of one prefix stay on one replica until it has more than its share", () => {
  const three = replicas(["a", "b", "c"]);
  const first = three.take(LATER, "conversation")?.[0] ?? "";
  three.release(first);
  expect(three.take(LATER, "conversation")?.[0]).toBe(first);
  const taken = Array.from({ length: 11 }, () => three.take(LATER, "conversation")?.[0]);
  const preferred = 1 + taken.filter((address) => address === first).length;
  expect(preferred).toBeLessThanOrEqual(6);
  expect(preferred).toBeGreaterThanOrEqual(5);
});

test("a replica that leaves moves only its own prefixes", () => {
  const prefixes = Array.from({ length: 60 }, (_, index) => `prefix ${index}`);
  const placesOf = (one: Replicas) =>
    prefixes.map((prefix) => {
      const address = one.take(LATER, prefix)?.[0] ?? "";
      one.release(address);
      return address;
    });
  const three = replicas(["a", "b", "c"]);
  const before = placesOf(three);
  three.set(endpoints("a", "b"), 100, 0);
  const after = placesOf(three);
  for (const [index, address] of before.entries()) if (address !== "c") expect(after[index]).toBe(address);
  expect(new Set(before).size).toBe(3);
});

test("the requests of a withdrawn replica still count until they end", () => {
  const two = replicas(["a", "b"]);
  two.take(LATER);
  two.set(endpoints("b"), 100, LATER);
  expect(two.inFlight).toBe(1);
  two.release("a");
  expect(two.inFlight).toBe(0);
});
