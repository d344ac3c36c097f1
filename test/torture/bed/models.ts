/** Model files on a real server: each name is a download of its own, and each service has weights of its own. */
import { mkdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { serveHttp } from "../../bed/http-server.ts";
import { sendFile } from "../../fixtures/origin.ts";
import { writeTinyGguf } from "../../fixtures/tiny-gguf.ts";
import { servicesWith } from "../plan/catalog.ts";

export interface ModelServer extends AsyncDisposable {
  /** Of a model by any name. */
  readonly urlOf: (name: string) => string;
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
  const server = await serveHttp((request, response) => {
    const { bytes } = weights.find(({ path: own }) => request.url?.startsWith(own)) ?? {};
    if (bytes === undefined) return void response.writeHead(404).end();
    sendFile(request, response, bytes, '"torture"');
  }, address);
  return {
    urlOf: (name) => `${server.url}/${name}.gguf`,
    [Symbol.asyncDispose]: server[Symbol.asyncDispose],
  };
}
