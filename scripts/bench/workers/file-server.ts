/** Serves one file of a given size on loopback: a GGUF header, then noise. Ends with its standard input. */
import { createServer } from "node:http";

const sizeBytes = Number(process.argv[2]);
const chunk = Buffer.alloc(1024 * 1024, "metalbridge");
const first = Buffer.from(chunk);
first.write("GGUF", 0, "latin1");

const server = createServer((request, response) => {
  response.writeHead(200, { "content-length": String(sizeBytes), etag: '"bench"' });
  if (request.method === "HEAD") return response.end();
  let sent = 0;
  const more = () => {
    while (sent < sizeBytes) {
      const part = (sent === 0 ? first : chunk).subarray(0, Math.min(chunk.length, sizeBytes - sent));
      sent += part.length;
      if (!response.write(part)) return response.once("drain", more);
    }
    return response.end();
  };
  return more();
});
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  if (typeof address === "object" && address !== null)
    console.log(`http://127.0.0.1:${address.port}/bench.gguf`);
});
process.stdin.on("end", () => process.exit(0)).resume();
