/** Model files on a real server: each name is a download of its own, and each service has weights of its own. */
import { mkdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import path from "node:path";
import { writeTinyGguf } from "../../fixtures/tiny-gguf.ts";
import { servicesWith } from "../plan/catalog.ts";

export interface ModelServer {
  /** Of a model by any name. */
  readonly urlOf: (name: string) => string;
  readonly close: () => Promise<void>;
}

/** Endless answers, so that a request takes as long as it asks for. */
export async function serveModels(address: string, dir: string): Promise<ModelServer> {
  mkdirSync(dir, { recursive: true });
  const weights = await Promise.all(
    servicesWith(1).map(async (name, seed) => {
      const file = path.join(dir, `${name}.gguf`);
      await writeTinyGguf(file, { endless: true, layers: 2, embeddingSize: 64, seed: seed + 1 });
      return { path: `/${name}-`, bytes: readFileSync(file) };
    }),
  );
  const server = createServer((request, response) => {
    const { bytes } = weights.find(({ path: own }) => request.url?.startsWith(own)) ?? {};
    if (bytes === undefined) return void response.writeHead(404).end();
    const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
    const head = { etag: '"torture"', "accept-ranges": "bytes", "content-type": "application/octet-stream" };
    if (range === null) {
      response.writeHead(200, { ...head, "content-length": bytes.length });
      return void response.end(request.method === "HEAD" ? undefined : bytes);
    }
    const from = Number(range[1]);
    const to = Math.min(range[2] === "" ? bytes.length - 1 : Number(range[2]), bytes.length - 1);
    if (from > to) return void response.writeHead(416, { "content-range": `bytes */${bytes.length}` }).end();
    const part = bytes.subarray(from, to + 1);
    response.writeHead(206, {
      ...head,
      "content-range": `bytes ${from}-${to}/${bytes.length}`,
      "content-length": part.length,
    });
    response.end(part);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, address, resolve);
  });
  const { port } = server.address() as { port: number };
  return {
    urlOf: (name) => `http://${address}:${port}/${name}.gguf`,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}
