/**
 * Serves files of noise behind a GGUF header on loopback: `/SIZE/NAME.gguf` is SIZE bytes long, and the same under
 * every name. In the shape of the Hub too: `hf://o/SIZE` is a repository with one such file of the checksum that
 * was given on the command line. Ends with its standard input.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

const sha256 = process.argv[2];
const chunk = Buffer.alloc(1024 * 1024, "metalbridge");
const first = Buffer.from(chunk);
first.write("GGUF", 0, "latin1");

function sendFile(request: IncomingMessage, response: ServerResponse, sizeBytes: number): void {
  const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
  const start = Number(range?.[1] ?? 0);
  const end = Math.min(sizeBytes, range?.[2] ? Number(range[2]) + 1 : sizeBytes);
  response.writeHead(range === null ? 200 : 206, {
    "content-length": end - start,
    "accept-ranges": "bytes",
    etag: `"${sizeBytes}"`,
    ...(range === null ? {} : { "content-range": `bytes ${start}-${end - 1}/${sizeBytes}` }),
  });
  if (request.method === "HEAD") return void response.end();
  let sent = start;
  const more = (): void => {
    while (sent < end) {
      const from = sent % chunk.length;
      const part = (sent < chunk.length ? first : chunk).subarray(
        from,
        Math.min(chunk.length, from + end - sent),
      );
      sent += part.length;
      if (!response.write(part)) return void response.once("drain", more);
    }
    response.end();
  };
  more();
}

const server = createServer((request, response) => {
  const path = request.url ?? "";
  const size = Number(/\/(\d+)\//.exec(path)?.[1]);
  if (path.startsWith("/api/")) {
    const lfs = { sha256, size };
    return response.end(
      JSON.stringify({ sha: "0".repeat(40), siblings: [{ rfilename: "bench.gguf", size, lfs }] }),
    );
  }
  if (path.includes("/resolve/")) return response.writeHead(302, { location: `/${size}/bench.gguf` }).end();
  return sendFile(request, response, size);
});
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  if (typeof address === "object" && address !== null) console.log(`http://127.0.0.1:${address.port}`);
});
process.stdin.on("end", () => process.exit(0)).resume();
