import { Socket } from "node:net";
import fc from "fast-check";
import { expect, test } from "vitest";
import { Pipelines } from "./pipelines.ts";

test("in whatever order requests begin and end, no connection waits for more than 8, and the ninth ends it", () => {
  const pipelined = 8;
  const step = fc.record({ at: fc.nat(2), isEnd: fc.boolean(), count: fc.integer({ min: 1, max: 6 }) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40, size: "max" }), (steps) => {
      const pipelines = new Pipelines();
      const all = Array.from({ length: 3 }, () => ({ socket: new Socket(), waiting: 0 }));
      const begin = (one: (typeof all)[number]): void => {
        const hasRoom = !one.socket.destroyed && one.waiting < pipelined;
        expect(pipelines.begin(one.socket, pipelined)).toBe(hasRoom);
        expect(one.socket.destroyed).toBe(!hasRoom);
        if (hasRoom) one.waiting += 1;
      };
      const end = (one: (typeof all)[number]): void => {
        if (one.waiting === 0) return;
        one.waiting -= 1;
        pipelines.end(one.socket);
      };
      for (const { at, isEnd, count } of steps)
        for (const one of Array.from({ length: count }, () => all.slice(at, at + 1)).flat())
          (isEnd ? end : begin)(one);
    }),
    { numRuns: 300 },
  );
});
