import { expect, test } from "vitest";
import { complaint } from "../../bed/load/ask.ts";
import { createConnections, parseConnection } from "../../bed/load/conntrack.ts";

const rewritten =
  "    [NEW] tcp      6 120 SYN_SENT src=10.78.3.50 dst=10.0.0.57 sport=12007 dport=8080 [UNREPLIED] src=10.78.3.11 dst=10.78.3.50 sport=21000 dport=12007";

test("the endpoint is where the reply comes from, and there is none without a rewritten address", () => {
  expect(parseConnection(rewritten)).toEqual({ localPort: 12_007, endpoint: "10.78.3.11:21000" });
  expect(parseConnection(rewritten.replace("src=10.78.3.11", "src=10.0.0.57"))).toBeUndefined();
  expect(parseConnection("")).toBeUndefined();
});

test("a connection that was never accepted does not get the endpoint of an older one from the same port", () => {
  const connections = createConnections();
  connections.note(rewritten, 1_000);
  expect(connections.endpointOf(12_007, 900)).toBe("10.78.3.11:21000");
  expect(connections.endpointOf(12_007, 50_000)).toBeUndefined();
});

test("an answer is complete, or the request has failed", () => {
  expect(complaint(200, '{"choices":[{}]}', false)).toBe("");
  expect(complaint(200, '{"choices":[', false)).toContain("not JSON");
  expect(complaint(200, '{"error":1}', false)).toContain("not an answer");
  expect(complaint(503, "loading", false)).toContain("503");
  expect(complaint(200, '{"model":"chat","choices":[{}]}', false, "chat")).toBe("");
  expect(complaint(200, '{"model":"other","choices":[{}]}', false, "chat")).toContain("of another model");
  expect(complaint(200, "data: {}\n\ndata: [DONE]\n\n", true)).toBe("");
  expect(complaint(200, "data: {}\n\n", true)).toContain("without [DONE]");
});
