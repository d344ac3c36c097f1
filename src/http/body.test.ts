import { once } from "node:events";
import { type IncomingMessage, request, createServer as startServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readBodyText } from "./body.ts";

const MOST = 64 * 1024;
const repeated = (length: number) => "x".repeat(length);

test("a body is read up to its limit, however it is sent, and the connection stays for its answer", async () => {
  const server = startServer(async (asked, response) => {
    const body = await readBodyText(asked, MOST);
    response.end(body ?? "too long");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const send = async (chunks: readonly string[], isAnnounced: boolean) => {
    const length = isAnnounced ? { "content-length": Buffer.byteLength(chunks.join("")) } : {};
    const sent = request({ host: "127.0.0.1", port, method: "POST", headers: length });
    const answered = once(sent, "response");
    for (const chunk of chunks) sent.write(chunk);
    sent.end();
    const [response] = (await answered) as [IncomingMessage];
    return text(response);
  };
  // Around the limit: what the other chunks leave of it, and up to 3 bytes more or less.
  const chunks = fc.array(fc.oneof(fc.string({ unit: "grapheme" }), fc.nat(20_000).map(repeated)), {
    maxLength: 4,
  });
  const around = fc.tuple(chunks, fc.integer({ min: -3, max: 3 })).map(([some, more]) => {
    const bytes = Buffer.byteLength(some.join(""));
    return [...some, repeated(Math.max(0, MOST + more - bytes))];
  });
  await fc.assert(
    fc.asyncProperty(fc.oneof(chunks, around), fc.boolean(), async (some, isAnnounced) => {
      const whole = some.join("");
      const expected = Buffer.byteLength(whole) <= MOST ? whole : "too long";
      expect((await send(some, isAnnounced)) === expected).toBe(true);
    }),
    { numRuns: 60 },
  );
  const many = Array.from({ length: 450 }, () => "é");
  expect(await send(many, false)).toBe(many.join(""));
  server.closeAllConnections();
  server.close();
});
