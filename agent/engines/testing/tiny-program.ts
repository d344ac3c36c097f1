/**
 * A tiny native program: `node tiny-program.ts PORT ADDRESS …`. /hold is answered once /release is requested, /metrics
 * counts the requests to /hold that are pending, /arguments repeats its arguments, /health is 200.
 */
import { createServer, type ServerResponse } from "node:http";

const [port, address] = process.argv.slice(2);
const held: ServerResponse[] = [];
const answers: Readonly<Record<string, () => string>> = {
  "/health": () => "ok",
  "/arguments": () => JSON.stringify(process.argv.slice(2)),
  "/metrics": () => `# TYPE held gauge\nheld ${held.length}\n`,
  "/release": () => {
    for (const response of held.splice(0)) response.end("released");
    return "ok";
  },
};
createServer((request, response) => {
  if (request.url === "/hold") return held.push(response);
  const answer = answers[request.url ?? ""];
  response.statusCode = answer === undefined ? 404 : 200;
  return response.end(answer?.());
}).listen(Number(port), address);
