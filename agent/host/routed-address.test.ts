import { expect, test } from "vitest";
import { createSteppedClock } from "../../test/controller/stepped-clock.ts";
import { createRouteReader } from "./routed-address.ts";

/** Every machine has a route to this one. */
const HERE = ["127.0.0.2"];

function setup(answers: () => readonly string[]) {
  const clock = createSteppedClock();
  const asked: string[] = [];
  const ask = createRouteReader(
    () => "https://api.example.test:6443",
    clock,
    async (server) => {
      asked.push(server);
      return answers();
    },
  );
  return { clock, asked, ask };
}

test("the name of the API server is looked up once a minute, and its route is read each time", async () => {
  const { clock, asked, ask } = setup(() => HERE);
  // The first answer is a change, so the second lookup follows it.
  await ask();
  for (let second = 0; second < 59; second += 1) {
    await ask();
    clock.advance(1_000);
  }
  expect(asked.length).toBe(2);
  clock.advance(2_000);
  await ask();
  expect(asked.length).toBe(3);
});

test("a lookup that fails is retried after seconds", async () => {
  let addresses: readonly string[] = [];
  const { clock, asked, ask } = setup(() => addresses);
  await ask();
  await ask();
  expect(asked.length).toBe(1);
  clock.advance(5_000);
  addresses = HERE;
  await ask();
  expect(asked.length).toBe(2);
});
