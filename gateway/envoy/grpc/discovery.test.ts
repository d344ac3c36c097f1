import { expect, test } from "vitest";
import { decodeRequest, encodeLoadAssignment, encodeResponse } from "./discovery.ts";
import { bytesField, numberField, readFields } from "./wire.ts";

test("an assignment has the bytes of the wire format", () => {
  const endpoints = [{ address: "10.0.0.1", port: 40_123, weight: 300, isHealthy: false }];
  expect(encodeLoadAssignment({ name: "default/a", endpoints }).toString("hex")).toBe(
    // 1: name, 2: { 2: { 1: { 1: { 1: { 2: address, 3: port } } }, 2: UNHEALTHY, 4: { 1: weight } } }
    "0a0964656661756c742f61" +
      "121d" +
      "121b" +
      "0a12" +
      "0a10" +
      "0a0e" +
      "120831302e302e302e31" +
      "18bbb902" +
      "1002" +
      "220308ac02",
  );
});

test("the name of an endpoint's host is metadata", () => {
  const endpoints = [{ address: "::1", port: 1, host: "mac-1", isHealthy: true }];
  const text = encodeLoadAssignment({ name: "a", endpoints }).toString("hex");
  // 3: { 1: { 1: namespace, 2: { 1: { 1: "host", 2: { 3: "mac-1" } } } } }
  expect(text).toContain(
    ["1a2b", "0a29", "0a14", Buffer.from("metalbridge.endpoint").toString("hex"), "1211", "0a0f"].join("") +
      [
        "0a04",
        Buffer.from("host").toString("hex"),
        "1207",
        "1a05",
        Buffer.from("mac-1").toString("hex"),
      ].join(""),
  );
});

test("a request names what it asks for, what it acknowledges, and why it rejects", () => {
  const status = Buffer.concat([numberField(1, 3), bytesField(2, "bad address")]);
  const request = Buffer.concat([
    ...[bytesField(1, "7"), bytesField(2, "node"), bytesField(3, "default/a"), bytesField(3, "default/b")],
    ...[bytesField(4, "type"), bytesField(5, "8"), bytesField(6, status), numberField(9, 1)],
  ]);
  expect(decodeRequest(request)).toEqual({
    ...{ type: "type", names: ["default/a", "default/b"], nonce: "8", error: "bad address" },
  });
  expect(() => decodeRequest(request.subarray(0, -4))).toThrow(RangeError);
});

test("a response holds each assignment with its type", () => {
  const fields = [...readFields(encodeResponse([Buffer.from("one"), Buffer.from("two")], "3"))];
  expect(fields.map(({ field }) => field)).toEqual([1, 2, 2, 4, 5]);
  expect(fields[1]?.bytes.toString()).toContain("ClusterLoadAssignment");
});

test("a sealed endpoint has the metadata by which its cluster chooses TLS", () => {
  const sealed = { address: "::1", port: 1, host: "mac-1", isHealthy: true, fingerprints: ["ab"] };
  const { fingerprints: _, ...plain } = sealed;
  const [withIt, without] = [sealed, plain].map((one) =>
    encodeLoadAssignment({ name: "a", endpoints: [one] }).toString("latin1"),
  );
  expect(withIt).toMatch(
    /metalbridge\.endpoint.*host.*mac-1.*envoy\.transport_socket_match.*transport.*Sealed/s,
  );
  expect(without).not.toContain("transport");
});
