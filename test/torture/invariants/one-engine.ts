/** Never two engines for one replica: not even for the moment between the end of one and the start of the next. */
import { grouped, livesOf } from "./derive/engines.ts";
import type { Invariant } from "./invariant.ts";

export const oneEngine: Invariant = {
  name: "one-engine",
  promise: "A replica never has two engine processes.",
  check: (recording, now) =>
    grouped(livesOf(recording, now), ({ uid }) => uid).flatMap(([uid, lives]) =>
      lives.flatMap((life, index) => {
        const earlier = lives.slice(0, index).find((one) => one.to > life.from);
        if (earlier === undefined) return [];
        const message = `on ${life.host} engine ${life.pid} began while engine ${earlier.pid} of the same replica lived`;
        return [{ invariant: "one-engine", at: life.from, message, about: [uid, life.host] }];
      }),
    ),
};
