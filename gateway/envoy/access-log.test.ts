import { expect, test } from "vitest";
import { parseAccessLogLine } from "./access-log.ts";

const LINE = {
  ...{
    ticket: "t",
    id: "r-1",
    status: 200,
    flags: "-",
    details: "via_upstream",
    method: "POST",
    path: "/v1/messages",
  },
  ...{ cluster: "default/a", endpoint: "10.0.0.1:4000", attempts: 1, received: 20, sent: 74 },
  ...{ start: "1795762361513", duration: 12, firstByte: 3 },
};
const NO_USAGE = {
  in: null,
  out: null,
  cached: null,
  apart: null,
  prompt_n: null,
  predicted_n: null,
  cache_n: null,
};
const parse = (usage: object, more: object = {}) =>
  parseAccessLogLine(JSON.stringify({ ...LINE, ...more, usage: { ...NO_USAGE, ...usage } }));

test("a line becomes a finished request", () => {
  expect(parse({ in: 5, out: 6 })).toEqual({
    ...{
      ticket: "t",
      requestId: "r-1",
      status: 200,
      flags: undefined,
      details: "via_upstream",
      method: "POST",
    },
    ...{ path: "/v1/messages", cluster: "default/a", endpoint: "10.0.0.1:4000", attempts: 1 },
    ...{ bytesReceived: 20, bytesSent: 74, startedMs: 1_795_762_361_513, durationMs: 12, firstByteMs: 3 },
    tokens: { in: 5, out: 6, cached: 0 },
  });
});

test("cached tokens count as tokens in, also where an API counts them apart", () => {
  expect(parse({ in: 5, out: 6, cached: 2 })?.tokens).toEqual({ in: 5, out: 6, cached: 2 });
  expect(parse({ in: 5, out: 6, apart: 20 })?.tokens).toEqual({ in: 25, out: 6, cached: 20 });
  expect(parse({ prompt_n: 5, predicted_n: 6, cache_n: 10 })?.tokens).toEqual({ in: 15, out: 6, cached: 10 });
  expect(parse({ in: 9, out: 1, prompt_n: 5, predicted_n: 6 })?.tokens).toEqual({ in: 9, out: 1, cached: 0 });
  expect(parse({})?.tokens).toBeUndefined();
});

test.each([
  ["a prompt of all bytes and a template", { in: 4_116, out: 1 }, true],
  ["more tokens than the request allows", { in: 4_117, out: 1 }, false],
  ["cached tokens apart, beyond the request", { in: 100, apart: 4_017 }, false],
  ["more cached tokens than tokens", { in: 5, out: 1, cached: 6 }, false],
  ["an answer of all bytes and hidden text", { in: 1, out: 4_170 }, true],
  ["more tokens than the answer allows", { in: 1, out: 4_171 }, false],
  ["a million from llama-server", { prompt_n: 1, predicted_n: 1_000_000 }, false],
  ["a negative number", { in: 9, out: -1 }, false],
  ["a fraction", { in: 1.5, out: 1 }, false],
  ["text", { in: "NaN", out: 1 }, false],
  ["an object", { in: { a: 1 }, out: 1 }, false],
])("%s: a line stays, and its tokens count if the bytes allow them", (_, usage, isUsable) => {
  const finished = parse(usage);
  expect(finished).toMatchObject({ requestId: "r-1", ticket: "t" });
  expect(finished?.tokens !== undefined).toBe(isUsable);
});

test("a request that Envoy refused has neither endpoint nor ticket, and half a line is no request", () => {
  const refused = parse(
    {},
    { ticket: null, cluster: null, endpoint: null, firstByte: null, flags: "DPE", id: null, path: null },
  );
  expect(refused).toMatchObject({
    ticket: undefined,
    requestId: "",
    flags: "DPE",
    endpoint: undefined,
    path: "",
  });
  expect(parseAccessLogLine(JSON.stringify(LINE).slice(0, 50))).toBeUndefined();
  expect(parseAccessLogLine("")).toBeUndefined();
});
