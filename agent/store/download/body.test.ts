import { expect, test } from "vitest";
import { classifyBody } from "./body.ts";

test("a part keeps its validator if the response to its range request does not repeat it", () => {
  const validator = { etag: '"one"', lastModified: "Tue, 02 Jan 2024 00:00:00 GMT", totalBytes: 100 };
  const part = { sizeBytes: 40, validator } as Parameters<typeof classifyBody>[1];
  const answer = {
    url: new URL("https://origin.example/model.gguf"),
    status: 206,
    headers: { "content-range": "bytes 40-99/100" },
  } as Parameters<typeof classifyBody>[0];
  expect(classifyBody(answer, part)).toEqual({ at: "bytes", startsAt: 40, totalBytes: 100, validator });
});
