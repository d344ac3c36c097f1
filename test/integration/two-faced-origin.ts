/** A loopback server that answers who reads a header from one file, and who downloads from another. */
import { type HttpServer, serveHttp } from "../bed/http-server.ts";

export type TwoFacedOrigin = HttpServer;

export interface Faces {
  readonly header: Uint8Array;
  readonly body: Uint8Array;
}

/** By path. A range with an end is a look at the header. */
export function serveOther(routes: Readonly<Record<string, Faces>>): Promise<TwoFacedOrigin> {
  return serveHttp(({ url, headers }, response) => {
    const faces = routes[url ?? ""];
    if (faces === undefined) return void response.writeHead(404).end();
    const [, first, last = ""] = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? "") ?? [];
    const content = last === "" ? faces.body : faces.header;
    if (first === undefined)
      return void response.writeHead(200, { "content-length": content.length }).end(content);
    const from = Number(first);
    const to = Math.min(last === "" ? content.length : Number(last), content.length - 1);
    const part = content.subarray(from, to + 1);
    response
      .writeHead(206, {
        "content-length": part.length,
        "content-range": `bytes ${from}-${to}/${content.length}`,
      })
      .end(part);
  });
}
