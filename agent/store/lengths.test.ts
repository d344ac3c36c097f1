/** A source with any announced length and any body leads to the content or an error code, and to no extra bytes on disk. */
import { readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { ggufBytes, sha256, startOrigin } from "../../test/fixtures/origin.ts";
import { fetchOptions, startStore } from "./fixtures/store.ts";

const content = ggufBytes(3_000, 9);

/** One response of a source. */
interface Scripted {
  /** True if the source supports range requests. */
  readonly hasRanges: boolean;
  readonly announces: boolean;
  /** Number of bytes after which the connection closes. */
  readonly cutAfter: number;
  /** Number of extra bytes after the content. */
  readonly more: number;
  readonly etag: string;
}

/** The response as bytes on the connection. */
function answerOf(
  { hasRanges, announces, cutAfter, more, etag }: Scripted,
  from: number | undefined,
): Buffer {
  const range = hasRanges ? from : undefined;
  const body = Buffer.concat([content.subarray(range ?? 0), Buffer.alloc(more, "x")]);
  const { length } = content;
  const head = [
    range === undefined ? "HTTP/1.1 200 OK" : "HTTP/1.1 206 Partial Content",
    ...(range === undefined ? [] : [`content-range: bytes ${range}-${length - 1}/${length}`]),
    ...(announces ? [`content-length: ${body.length}`] : []),
    ...[`etag: ${etag}`, "connection: close", "", ""],
  ];
  return Buffer.concat([Buffer.from(head.join("\r\n")), body.subarray(0, cutAfter)]);
}

test("a download ends with the content or with a code, and no more is on disk than the source announced or sent", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  const partial = join(at.dir, "partial");
  const parts = () => readdirSync(partial).filter((name) => name.endsWith(".part"));
  const storedBytes = () => Math.max(0, ...parts().map((name) => statSync(join(partial, name)).size));
  const answer = fc.record({
    hasRanges: fc.boolean(),
    announces: fc.boolean(),
    cutAfter: fc.oneof(fc.constant(10_000), fc.nat(3_000)),
    more: fc.oneof(fc.constant(0), fc.nat(5_000)),
    etag: fc.constantFrom('"v1"', '"v1"', '"v2"'),
  });
  const cut: Scripted = { hasRanges: true, announces: true, cutAfter: 1_000, more: 0, etag: '"v1"' };
  const overlong: Scripted = { ...cut, cutAfter: 10_000, more: 1 };
  await fc.assert(
    fc.asyncProperty(fc.array(answer, { minLength: 1, maxLength: 3 }), fc.nat(), async (answers, name) => {
      const path = `/${name}.gguf`;
      for (const part of parts()) rmSync(join(partial, part));
      let allowedBytes = 0;
      const tooMuch: number[] = [];
      const check = (): void => {
        if (storedBytes() > allowedBytes) tooMuch.push(storedBytes());
      };
      let end = (): void => {};
      const left = [...answers];
      origin.on(path, (request, response) => {
        check();
        const next = left.shift();
        if (next === undefined) return void response.writeHead(503).end();
        const [, from] = /^bytes=(\d+)-/.exec(request.headers.range ?? "") ?? [];
        const isRange = next.hasRanges && from !== undefined;
        allowedBytes = Math.max(allowedBytes, content.length + (isRange ? 0 : next.more));
        response.socket?.write(answerOf(next, from === undefined ? undefined : Number(from)));
        end = () => response.socket?.end();
      });
      const source = `${origin.url}${path}`;
      // The server closes once the client reads, because unread bytes would be lost with the connection.
      const onProgress = () => void setImmediate(() => end());
      const fetching = at.store.fetch({ source, sha256: sha256(content) }, fetchOptions({ onProgress }));
      const found = await fetching.catch((error: unknown) => error);
      check();
      expect(tooMuch).toEqual([]);
      if (found instanceof Error) expect(found).toBeInstanceOf(MetalbridgeError);
      else expect(readFileSync((found as { path: string }).path).equals(content)).toBe(true);
      await at.store.remove(source);
    }),
    { numRuns: 30, examples: [[[cut, overlong], 0]] },
  );
});
