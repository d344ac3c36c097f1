/** A tiny shared daemon: `node tiny-daemon.ts PORT`. PUT and DELETE /models/NAME load and unload, GET /models lists, GET /answer/NAME answers for one that is loaded. */
import { createServer } from "node:http";

const loaded = new Set<string>();
createServer((request, response) => {
  const [, verb, name = ""] = (request.url ?? "").split("/");
  if (request.method === "PUT") loaded.add(name);
  if (request.method === "DELETE") loaded.delete(name);
  if (verb === "answer") response.statusCode = loaded.has(name) ? 200 : 404;
  response.end(JSON.stringify([...loaded]));
}).listen(Number(process.argv[2]), "127.0.0.1");
