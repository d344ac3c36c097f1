import { expect, test } from "vitest";
import type { ApiFailure } from "../../../src/kube/types.ts";
import { codeOfRejections, describeRejections, rejectionOf } from "./rejection.ts";

const failure = (kind: ApiFailure["kind"], message: string): ApiFailure => ({
  kind,
  status: 0,
  reason: "",
  message,
});

test.each<[ApiFailure["kind"], string, string | undefined]>([
  ["invalid", 'Service "chat" is invalid: provided port is already allocated', "ApiObjectRefused"],
  ["forbidden", 'services "chat" is forbidden: exceeded quota: few, requested: services=1', "QuotaExceeded"],
  ["forbidden", 'admission webhook "no.example.com" denied the request: no', "ApiObjectRefused"],
  [
    "forbidden",
    'services is forbidden: User "system:serviceaccount:m:c" cannot create resource "services" in API group ""',
    "ApiForbidden",
  ],
  ["unavailable", 'Internal error occurred: failed calling webhook "gone": refused', "ApiObjectRefused"],
  ["unavailable", "etcdserver: leader changed", undefined],
  ["unreachable", "connect ECONNREFUSED", undefined],
  ["throttled", "too many requests", undefined],
])("%s: %s", (kind, message, code) => {
  expect(rejectionOf("create Service chat", failure(kind, message))?.code).toBe(code);
});

test("the same rejections give the same message, in whatever order they came", () => {
  const rejections = ["chat-1", "chat-0", "chat-2"].flatMap((name, index) => {
    const kind = index === 1 ? "invalid" : "forbidden";
    return rejectionOf(`create ${name}`, failure(kind, `exceeded quota: ${name}`)) ?? [];
  });
  const text = "create chat-0: exceeded quota: chat-0; and 2 more; retried automatically";
  for (const order of [rejections, rejections.toReversed()]) {
    expect(describeRejections(order)).toBe(text);
    expect(codeOfRejections(order)).toBe("ApiObjectRefused");
  }
});
