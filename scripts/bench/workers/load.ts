/** A steady stream of real requests, each on a connection of its own: one JSON line per finished one. Ends with its standard input. */
import { setTimeout as pause } from "node:timers/promises";
import { ask } from "../../../test/bed/load/ask.ts";
import { freshAgent } from "../../../test/bed/load/connections.ts";

const [url = "", perSecond = "10", maxTokens = "8"] = process.argv.slice(2);
const TIMEOUT_MS = 20_000;
const agent = freshAgent();
const open = new Set<Promise<void>>();
let hasEnded = false;
process.stdin
  .on("end", () => {
    hasEnded = true;
  })
  .resume();

/** Sent at its moment whatever the others do, so that a slow response delays no other request. Every second one is streamed. */
for (let sent = 1, next = performance.now(); !hasEnded; sent += 1) {
  const request = send(sent);
  open.add(request);
  void request.then(() => open.delete(request));
  next += 1_000 / Number(perSecond);
  await pause(Math.max(0, next - performance.now()));
}
await Promise.all(open);

async function send(sent: number): Promise<void> {
  const isStreamed = sent % 2 === 0;
  const content = `Tell me about the sea, part ${sent}.`;
  const startedAt = Date.now();
  const from = performance.now();
  const { failure } = await ask({
    url,
    isStreamed,
    content,
    agent,
    maxTokens: Number(maxTokens),
    timeoutMs: TIMEOUT_MS,
  });
  const error = failure === "" ? undefined : failure;
  console.log(JSON.stringify({ startedAt, ms: performance.now() - from, stream: isStreamed, error }));
}
