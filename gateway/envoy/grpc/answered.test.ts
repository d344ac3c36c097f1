import { expect, test } from "vitest";
import { decodeAnswered } from "./answered.ts";
import { bytesField, numberField } from "./wire.ts";

/** HTTPAccessLogEntry: 1 common properties, 2 version, 3 request with 9 its id, 4 response with 1 its code. */
const entryOf = (id: string, status: number | undefined) =>
  bytesField(
    1,
    Buffer.concat([
      bytesField(1, numberField(1, 300)),
      numberField(2, 2),
      bytesField(3, Buffer.concat([numberField(1, 4), bytesField(5, "/v1/chat"), bytesField(9, id)])),
      status === undefined
        ? Buffer.alloc(0)
        : bytesField(4, Buffer.concat([bytesField(1, numberField(1, status)), numberField(2, 90)])),
    ]),
  );

test("a message has the id and the status of each request", () => {
  const message = Buffer.concat([
    bytesField(1, bytesField(2, "answered")),
    bytesField(2, Buffer.concat([entryOf("a", 200), entryOf("b", undefined)])),
  ]);
  expect(decodeAnswered(message)).toEqual([
    { id: "a", status: 200 },
    { id: "b", status: 0 },
  ]);
  expect(decodeAnswered(Buffer.alloc(0))).toEqual([]);
  expect(() => decodeAnswered(message.subarray(0, -1))).toThrow(RangeError);
});
