/** A steady stream of real requests, each on a connection of its own: one JSON line per finished one. Ends with its standard input. */
import { request } from "node:http";

const [url = "", perSecond = "10", maxTokens = "8"] = process.argv.slice(2);
const TIMEOUT_MS = 20_000;

let sent = 0;
let open = 0;
let isOver = false;

const sending = setInterval(send, 1_000 / Number(perSecond));
process.stdin
  .on("end", () => {
    isOver = true;
    clearInterval(sending);
    endWhenDone();
  })
  .resume();

/** At its moment whatever the others do, so that a slow response delays no other request. Every second one is streamed. */
function send(): void {
  sent += 1;
  open += 1;
  const stream = sent % 2 === 0;
  const startedAt = Date.now();
  const from = performance.now();
  let isTold = false;
  const tell = (error?: string) => {
    if (isTold) return;
    isTold = true;
    open -= 1;
    console.log(JSON.stringify({ startedAt, ms: performance.now() - from, stream, error }));
    endWhenDone();
  };
  const messages = [{ role: "user", content: `Tell me about the sea, part ${sent}.` }];
  const body = JSON.stringify({ messages, max_tokens: Number(maxTokens), stream });
  const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
  const call = request(url, { method: "POST", agent: false, headers, timeout: TIMEOUT_MS }, (response) => {
    let text = "";
    response.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
    response.once("end", () => tell(whyNotAnswered(response.statusCode, text, stream)));
    response.once("error", (error) => tell(`cut: ${error.message}`));
    response.once("aborted", () => tell("cut"));
  });
  call.once("timeout", () => call.destroy(new Error(`no byte for ${TIMEOUT_MS} ms`)));
  call.once("error", (error) => tell(error.message));
  call.end(body);
}

/** Complete or not: a stream must say that it is done, an answer must be whole. */
function whyNotAnswered(status: number | undefined, text: string, stream: boolean): string | undefined {
  if (status !== 200) return `${status}: ${text.slice(0, 200)}`;
  if (stream) return text.includes("data: [DONE]") ? undefined : "the stream ended early";
  try {
    return Array.isArray(JSON.parse(text).choices) ? undefined : `no answer: ${text.slice(0, 200)}`;
  } catch {
    return `not an answer: ${text.slice(0, 200)}`;
  }
}

function endWhenDone(): void {
  if (isOver && open === 0) process.exit(0);
}
