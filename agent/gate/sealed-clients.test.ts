/** The connections to a sealed route that have not proved a certificate, for any order of events. */
import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import fc from "fast-check";
import { expect, test } from "vitest";
import { SealedClients } from "./sealed-clients.ts";

const MAX = 3;

/** Its `close` is emitted when the test says so. */
function connectionFrom(remoteAddress: string, remotePort: number) {
  const connection = Object.assign(new EventEmitter(), {
    remoteAddress,
    remotePort,
    isOpen: true,
    destroy: () => {
      connection.isOpen = false;
    },
  });
  return connection;
}

test.each<[string, string[], number[]]>([
  ["up to the limit every connection stays open", ["a", "b", "a"], []],
  ["above it, the oldest of the address with the most is closed", ["client", "a", "a", "a"], [1]],
  ["many of one address close one another, and none of a client", ["client", ..."aaaa"], [1, 2]],
  ["addresses with as many each: the oldest is closed", ["a", "b", "c", "d"], [0]],
])("%s", (_, addresses, closed) => {
  const clients = new SealedClients(MAX);
  const all = addresses.map(connectionFrom);
  for (const one of all) clients.arrive(one as unknown as Socket);
  expect(all.flatMap(({ isOpen }, index) => (isOpen ? [] : [index]))).toEqual(closed);
});

const event = fc.record({
  act: fc.constantFrom("arrive", "close"),
  address: fc.constantFrom("a", "b", "c"),
  pick: fc.nat(9),
});

test("no more are open than the limit, and one is closed only for an address with as many or more", () => {
  fc.assert(
    fc.property(fc.array(event, { maxLength: 60 }), (events) => {
      const clients = new SealedClients(MAX);
      const all: ReturnType<typeof connectionFrom>[] = [];
      const open = (address: string) => all.filter((one) => one.isOpen && one.remoteAddress === address);
      for (const { act, address, pick } of events) {
        if (act === "close") {
          const one = all[pick % Math.max(1, all.length)];
          one?.destroy();
          one?.emit("close");
          continue;
        }
        // A port is used again as soon as its connection is closed, before that is seen here.
        if (open(address).some(({ remotePort }) => remotePort === pick)) continue;
        const before = all.filter(({ isOpen }) => isOpen);
        const arriving = connectionFrom(address, pick);
        all.push(arriving);
        const counts = ["a", "b", "c"].map((one) => open(one).length);
        clients.arrive(arriving as unknown as Socket);
        const closed = [...before, arriving].filter(({ isOpen }) => !isOpen);
        expect(closed).toHaveLength(before.length === MAX ? 1 : 0);
        for (const { remoteAddress } of closed)
          expect(open(remoteAddress).length + 1).toBe(Math.max(...counts));
      }
    }),
  );
});
