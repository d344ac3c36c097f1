/** The limits of connections to the peers' port, for any order of events. */
import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import fc from "fast-check";
import { expect, test } from "vitest";
import { systemClock } from "../../src/kube/system-clock.ts";
import { createPeerConnections, PEER_CONNECTION_LIMITS } from "./peer-connections.ts";

/** Its `close` is emitted some time after it was destroyed. */
function connectionFrom(remoteAddress: string, remotePort: number) {
  const connection = Object.assign(new EventEmitter(), {
    remoteAddress,
    remotePort,
    isOpen: true,
    isProved: false,
    destroy: () => {
      connection.isOpen = false;
    },
  });
  return connection;
}

type Connection = ReturnType<typeof connectionFrom>;

const LIMITS = { perAddress: 4, unproved: 3, refusedMs: 10_000 };

function visited() {
  let nowMs = 0;
  const connections = createPeerConnections({ ...systemClock, monotonicMs: () => nowMs }, LIMITS);
  const all: Connection[] = [];
  const refusedAt = new Map<string, number>();
  const pick = (isOpen: boolean, number: number): Connection | undefined => {
    const some = all.filter((one) => one.isOpen === isOpen);
    return some[number % some.length];
  };
  return {
    connections,
    all,
    wait: (ms: number) => (nowMs += ms),
    isRefused: (address: string) => nowMs - (refusedAt.get(address) ?? -LIMITS.refusedMs) < LIMITS.refusedMs,
    acts: {
      /** A port is used again as soon as its connection is closed, before that is seen here. */
      arrive: (address: string, number: number) => {
        const port = number % 4;
        if (all.some((one) => one.isOpen && one.remoteAddress === address && one.remotePort === port)) return;
        const arriving = connectionFrom(address, port);
        all.push(arriving);
        connections.arrive(arriving as unknown as Socket);
      },
      prove: (_: string, number: number) => {
        const one = pick(true, number);
        if (one === undefined) return;
        one.isProved = true;
        connections.prove(one);
        refusedAt.delete(one.remoteAddress);
      },
      refuse: (address: string) => {
        connections.refuse(address);
        refusedAt.set(address, nowMs);
      },
      leave: (_: string, number: number) => pick(true, number)?.destroy(),
      hear: (_: string, number: number) => {
        const one = pick(false, number);
        if (one === undefined) return;
        all.splice(all.indexOf(one), 1);
        one.emit("close");
      },
    },
  };
}

test("no order of events exceeds a limit, and a connection of a proved host is not closed for others", () => {
  const step = fc.record({
    what: fc.constantFrom("arrive", "arrive", "arrive", "prove", "refuse", "leave", "hear" as const),
    address: fc.constantFrom("10.0.0.1", "10.0.0.2"),
    number: fc.nat(11),
    waitMs: fc.nat(3_000),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60, size: "max" }), (steps) => {
      const { connections, all, wait, isRefused, acts } = visited();
      for (const { what, address, number, waitMs } of steps) {
        wait(waitMs);
        const proved = all.filter((one) => one.isOpen && one.isProved);
        acts[what](address, number);
        const open = all.filter(({ isOpen }) => isOpen);
        if (what !== "leave") expect(proved.every(({ isOpen }) => isOpen)).toBe(true);
        expect(open.filter(({ isProved }) => !isProved).length).toBeLessThanOrEqual(LIMITS.unproved);
        const ofAddress = open.filter(({ remoteAddress }) => remoteAddress === address);
        expect(ofAddress.length).toBeLessThanOrEqual(LIMITS.perAddress);
        expect(connections.isRefused(address)).toBe(isRefused(address));
      }
    }),
    { numRuns: 200 },
  );
});

test("one address has at most 32 connections, and at most 64 of all addresses are unproved", () => {
  expect(PEER_CONNECTION_LIMITS).toEqual({ perAddress: 32, unproved: 64, refusedMs: 10_000 });
});
