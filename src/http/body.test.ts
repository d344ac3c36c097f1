import { once } from "node:events";
import { type IncomingMessage, request, createServer as startServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readBody } from "./body.ts";

const MOST = 1_000;

test("a body is read up to its limit, however it is sent, and the connection stays for its answer", async () => {
  const server = startServer(async (asked, response) => {
    const body = await readBody(asked, MOST);
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
  const chunk = fc.oneof(fc.string({ unit: "grapheme" }), fc.string({ minLength: 300, maxLength: 700 }));
  await fc.assert(
    fc.asyncProperty(fc.array(chunk, { maxLength: 4 }), fc.boolean(), async (chunks, isAnnounced) => {
      const whole = chunks.join("");
      const expected = Buffer.byteLength(whole) <= MOST ? whole : "too long";
      expect(await send(chunks, isAnnounced)).toBe(expected);
    }),
  );
  for (const [size, expected] of [
    [MOST, MOST],
    [MOST + 1, "too long".length],
  ] as const)
    expect((await send(["x".repeat(size)], false)).length).toBe(expected);
  server.closeAllConnections();
  server.close();
});
