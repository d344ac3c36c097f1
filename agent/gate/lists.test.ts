import fc from "fast-check";
import { expect, test } from "vitest";
import { until } from "../../test/bed/until.ts";
import { BodyBudget } from "./body/budget.ts";
import { routeTo, startDaemon, startPair, startRoute, statusFor } from "./fixtures/route.ts";

const LIMIT = 8 * 1024 ** 2;

test("a daemon's list of models is read up to 8 MiB, and refused beyond it", async () => {
  let bytes = 0;
  const models = JSON.stringify({ object: "list", data: [{ id: "hf.co/org/model:Q4" }, { id: "private" }] });
  await using pair = await startPair({}, (_, response) => void response.end(models.padEnd(bytes)));
  const size = fc.oneof(fc.nat(LIMIT), fc.integer({ min: LIMIT - 2, max: LIMIT + 2 }), fc.nat(2 * LIMIT));
  await fc.assert(
    fc.asyncProperty(size, async (given) => {
      bytes = given;
      const answer = await fetch(`${pair.url}/v1/models`);
      expect(answer.status).toBe(given > LIMIT ? 502 : 200);
      const text = await answer.text();
      expect(text).not.toContain("private");
      if (given <= LIMIT) expect(JSON.parse(text)).toEqual({ object: "list", data: [{ id: "chat" }] });
    }),
    { numRuns: 15 },
  );
});

const LIST = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n";

test.each([
  ["nested too deeply", () => [`{"data":[],"x":${"[".repeat(100_000)}${"]".repeat(100_000)}}`]],
  ["in thousands of chunks of one byte", () => [...`{"data":[]}${" ".repeat(5_000)}`]],
])("an engine's list of models that is %s is 502, and the gate keeps serving", async (_, parts) => {
  await using pair = await startPair({}, (__, response) => {
    for (const part of parts()) response.write(part);
    response.end();
  });
  for (let count = 0; count < 2; count += 1) expect(await statusFor(pair.port, LIST)).toMatch(/^502/);
});

test("lists of models count against the memory limit of bodies", async () => {
  const limits = { totalBytes: 1024, routeBytes: 4_096, ownBytes: 4_096, protectedMs: 10_000 };
  const bodies = new BodyBudget(limits);
  let answer = '{"data":[]}';
  await using engine = await startDaemon((_, response) => void response.end(answer));
  await using gate = await startRoute(routeTo(engine.port), bodies);
  expect(await statusFor(gate.port, LIST)).toMatch(/^200/);
  answer = `{"data":[],"x":"${"x".repeat(5_000)}"}`;
  expect(await statusFor(gate.port, LIST)).toMatch(/^503/);
  await until(() => expect(bodies.bytes).toBe(0));
});
