/** Compares signatures with the examples that the vendors publish. */
import { expect, test, vi } from "vitest";
import { signOss } from "./oss.ts";
import { signV4 } from "./s3.ts";

/** Amazon S3 API reference, "Examples: Signature Calculations", with the headers that S3 requires. */
test.each([
  [
    "https://examplebucket.s3.amazonaws.com/?lifecycle",
    "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
  ],
  [
    "https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J",
    "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
  ],
])("a version 4 signature equals AWS's example: %s", async (address, signature) => {
  vi.useFakeTimers({ now: Date.parse("2013-05-24T00:00:00Z"), toFake: ["Date"] });
  const keys = { id: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY" };
  const sign = signV4({ keys, region: "us-east-1", clockOffsetMs: 0 });
  const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  const headers = { "x-amz-content-sha256": empty, "if-range": "is not signed" };
  const { signal } = new AbortController();
  const signed = await sign({ url: new URL(address), method: "GET", headers, signal });
  vi.useRealTimers();
  expect(signed.authorization).toBe(
    `AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=${signature}`,
  );
});

/** From the tests of Alibaba Cloud's own OSS SDK (alibabacloud-oss-python-sdk-v2, signer v4). */
test.each([
  [1_702_743_657, "20231216", {}, "e21d18daa82167720f9b1047ae7e7f1ce7cb77a31e8203a7d5f4624fa0284afe"],
  [
    1_702_784_856,
    "20231217",
    { "x-oss-security-token": "token" },
    "b94a3f999cf85bcdc00d332fbd3734ba03e48382c36fa4d5af5df817395bd9ea",
  ],
])("an OSS version 4 signature equals the vendor's example at %d", (seconds, date, token, signature) => {
  const query = new URLSearchParams();
  for (const [name, value] of [
    ...[
      ["param1", "value1"],
      ["+param1", "value3"],
      ["|param1", "value4"],
    ],
    ...[
      ["+param2", ""],
      ["|param2", ""],
      ["param2", ""],
    ],
  ] as [string, string][])
    query.append(name, value);
  const headers = { "x-oss-head1": "value", abc: "value", ZAbc: "value", XYZ: "value", ...token };
  const request = { method: "PUT", bucket: "bucket", key: "1234+-/123/1.txt", query };
  const signed = signOss(
    { ...request, headers: { ...headers, "content-type": "text/plain" } },
    { id: "ak", secret: "sk", region: "cn-hangzhou" },
    new Date(seconds * 1000),
  );
  expect(signed.authorization).toBe(
    `OSS4-HMAC-SHA256 Credential=ak/${date}/cn-hangzhou/oss/aliyun_v4_request,Signature=${signature}`,
  );
});
