import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import fc from "fast-check";
import { expect, onTestFinished, test, vi } from "vitest";
import { headerBytes, ranged, serveModel } from "../../test/fixtures/model-server.ts";
import { selfSigned } from "../../test/fixtures/self-signed.ts";
import { whyNoAuthority } from "../../test/fixtures/test-authority.ts";
import { readResponseText, type SourceResponse, sendSourceRequest } from "./client.ts";
import { failureOf, inspectNow } from "./fixtures/inspect.ts";

test.skipIf(whyNoAuthority() !== undefined)(
  "a redirect from https to http is refused for every caller",
  async () => {
    const plain = await serveModel(ranged(headerBytes(10)));
    const secure = createServer(selfSigned(), (_, response) => {
      response.writeHead(302, { location: `${plain.url}/m.gguf` }).end();
    });
    await new Promise<void>((listening) => secure.listen(0, "127.0.0.1", listening));
    onTestFinished(() => {
      secure.closeAllConnections();
      secure.close();
      vi.unstubAllEnvs();
    });
    vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
    const { port } = secure.address() as AddressInfo;
    const failure = await failureOf(inspectNow(`https://127.0.0.1:${port}/m.gguf?sig=geheim`));
    expect(failure).toMatchObject({ code: "SourceNotAllowed", isTransient: false });
    expect(failure.message).toBe(`https://127.0.0.1:${port}/m.gguf redirects from https to http`);
    expect(plain.requests).toEqual([]);
  },
);

const { signal } = new AbortController();

test("a text up to the limit is read exactly, in any chunks, and a longer one is not read beyond the limit", async () => {
  const chunk = fc.uint8Array({ maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(
      fc.array(chunk, { maxLength: 8, size: "max" }),
      fc.nat(200),
      async (chunks, maxBytes) => {
        const whole = Buffer.concat(chunks);
        let readBytes = 0;
        const counted = function* () {
          for (const one of chunks) {
            readBytes += one.length;
            yield Buffer.from(one);
          }
        };
        const body = Readable.from(counted(), { highWaterMark: 1 });
        const response = { url: new URL("http://source.test/list"), body } as unknown as SourceResponse;
        const read = readResponseText(response, maxBytes, signal);
        if (whole.length <= maxBytes) return void expect(await read).toBe(whole.toString("utf8"));
        await expect(read).rejects.toMatchObject({ error: { code: "SourceRefused" }, isTransient: false });
        // The limit is detected in one chunk, and the next one may already be in flight.
        expect(readBytes).toBeLessThanOrEqual(maxBytes + 80);
        expect(body.destroyed).toBe(true);
      },
    ),
  );
});

test("a request is retried at most twice, for any retryable response", async () => {
  let refusals = 0;
  const server = await serveModel((_, response) => {
    refusals -= 1;
    response.writeHead(refusals < 0 ? 200 : 401).end();
  });
  const start = new URL(server.url);
  const rules = { allowLoopback: true, allowPrivate: false, stallMs: 10_000, connectMs: 10_000 };
  for (const count of [0, 1, 2, 3, 4]) {
    refusals = count;
    server.requests.length = 0;
    const answer = await sendSourceRequest(
      start,
      { signal, judge: async () => start },
      { ...rules, maxRedirects: 0 },
    );
    answer.body.resume();
    expect([answer.status, server.requests.length]).toEqual([count > 2 ? 401 : 200, Math.min(count, 2) + 1]);
  }
});

test("redirects are followed up to the limit, and no further request is sent", async () => {
  let hops = 0;
  const server = await serveModel((request, response) => {
    const hop = Number(request.url?.slice(1));
    if (hop < hops) response.writeHead(302, { location: `/${hop + 1}` }).end();
    else response.end("there");
  });
  await fc.assert(
    fc.asyncProperty(fc.nat(14), fc.nat(10), async (some, maxRedirects) => {
      hops = some;
      server.requests.length = 0;
      const rules = { allowLoopback: true, allowPrivate: false, stallMs: 10_000, connectMs: 10_000 };
      const response = sendSourceRequest(new URL(`${server.url}/0`), { signal }, { ...rules, maxRedirects });
      if (hops > maxRedirects)
        await expect(response).rejects.toMatchObject({ error: { code: "SourceRedirects" } });
      else expect(await readResponseText(await response, 100, signal)).toBe("there");
      expect(server.requests.length).toBe(Math.min(hops, maxRedirects) + 1);
    }),
    {
      numRuns: 25,
      examples: [
        [9, 10],
        [10, 10],
        [11, 10],
      ],
    },
  );
});
