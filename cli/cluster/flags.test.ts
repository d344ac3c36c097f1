import { InvalidArgumentError } from "commander";
import { expect, test } from "vitest";
import { countParser, parseDuration, parseHostName, parseName, parseServiceName } from "./flags.ts";

test.each([
  ["90s", 90_000],
  ["10m", 600_000],
  ["1h30m", 5_400_000],
  ["250ms", 250],
  ["0", 0],
])("%s is %d ms", (text, ms) => {
  expect(parseDuration(text)).toBe(ms);
});

test.each(["", "10", "-1s", "1.5m", "m", "10 m", "10m!", "1d", "0x10s", "10M"])("%j is no time", (text) => {
  expect(() => parseDuration(text)).toThrow(InvalidArgumentError);
});

test.each(["", "..", "../secrets", "A", "a/b", "a b", "-a", "a-", "ä", "a".repeat(254), "a?x=y", "a\u0000"])(
  "%j is no name",
  (text) => {
    expect(() => parseName(text)).toThrow(InvalidArgumentError);
  },
);

test("names may have their kind before them, as kubectl prints them", () => {
  expect(parseServiceName("inferenceservice/chat")).toBe("chat");
  expect(parseServiceName("isvc/chat.v2")).toBe("chat.v2");
  expect(parseServiceName("inferenceservices.metalbridge.dev/chat")).toBe("chat");
  expect(() => parseServiceName("services.example.com/chat")).toThrow(InvalidArgumentError);
  expect(parseHostName("mbhost/mini-1")).toBe("mini-1");
  expect(() => parseHostName("a".repeat(64))).toThrow(InvalidArgumentError);
  expect(() => parseServiceName("pod/chat")).toThrow(InvalidArgumentError);
});

test.each(["-1", "1.5", "", "1e3", "9999999999", "０"])("%j is no count", (text) => {
  expect(() => countParser(0)(text)).toThrow(InvalidArgumentError);
});

test("a count has a least", () => {
  expect(countParser(0)("0")).toBe(0);
  expect(() => countParser(1)("0")).toThrow(/at least 1/);
});
