import { expect, test } from "vitest";
import { recordedFrom } from "./store.ts";

test.each([
  ["/tmp/a?b.tar.gz", "/tmp/a?b.tar.gz"],
  ["https://example.com/a.tar.gz", "https://example.com/a.tar.gz"],
  ["https://bucket.example.com/a.tar.gz?X-Amz-Signature=secret#x", "https://bucket.example.com/a.tar.gz"],
  ["https://user:secret@example.com:8443/a.tar.gz", "https://example.com:8443/a.tar.gz"],
])("of %s the record keeps what is no secret", (from, kept) => {
  expect(recordedFrom(from)).toBe(kept);
});
