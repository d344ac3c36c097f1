import { expect, onTestFinished, test, vi } from "vitest";
import type { Log } from "../../src/ports.ts";
import { createSteppedClock } from "../../test/controller/stepped-clock.ts";
import { followAddress } from "./follow-address.ts";

const quiet: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => quiet };

/** The address that is served on is the route's, and what the route says can be set. */
function following(first: string | undefined) {
  const end = new AbortController();
  onTestFinished(() => end.abort());
  const clock = createSteppedClock();
  const farm = { route: first, served: first, changes: 0 };
  followAddress({
    ...{ clock, log: quiet, signal: end.signal },
    askRoute: async () => farm.route,
    onRouted: (address) => {
      farm.served = address;
    },
    address: () => farm.served,
    onChange: () => {
      farm.changes += 1;
    },
  });
  return { clock, farm, end };
}

test("an address that DHCP has changed is followed within seconds", async () => {
  const { clock, farm } = following("192.0.2.10");
  farm.route = "192.0.2.110";
  clock.advance(2_000);
  await vi.waitFor(() => expect(farm).toMatchObject({ served: "192.0.2.110", changes: 1 }));
  clock.advance(2_000);
  farm.route = "192.0.2.10";
  clock.advance(2_000);
  await vi.waitFor(() => expect(farm).toMatchObject({ served: "192.0.2.10", changes: 2 }));
});

test("without any route the address stays what it was", async () => {
  const { clock, farm } = following("192.0.2.10");
  farm.route = undefined;
  clock.advance(2_000);
  await new Promise(setImmediate);
  expect(farm).toMatchObject({ served: "192.0.2.10", changes: 0 });
});

test("it ends with its signal", async () => {
  const { clock, farm, end } = following("192.0.2.10");
  end.abort();
  farm.route = "192.0.2.110";
  clock.advance(2_000);
  await new Promise(setImmediate);
  expect(farm.changes).toBe(0);
});
