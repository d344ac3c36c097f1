/** A tiny engine that is one process per replica: `node tiny-engine.ts PORT ADDRESS…`. Answers every request. */
import { createServer } from "node:http";

const [port, ...addresses] = process.argv.slice(2);
for (const address of addresses)
  createServer((_, response) => response.end("ok")).listen(Number(port), address);
