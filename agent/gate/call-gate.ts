/** The agent's requests to a gate, over its socket. */
import { request as httpRequest } from "node:http";

/** Extra time after the timeout: in a process that was paused, the timer fires before the answer that has arrived is read. */
const READ_FIRST_MS = 250;

/** Rejects if there is no answer, or the answer is not a success. Without `timeoutMs` the call waits until the gate exits. */
export function callGate<T>(
  socketPath: string,
  method: string,
  path: string,
  timeoutMs?: number,
  body?: object,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const call = httpRequest({ socketPath, method, path: `/${path}`, agent: false }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
      });
      response.once("error", reject);
      response.once("end", () => {
        if (response.statusCode === 200) resolve(JSON.parse(text));
        else reject(new Error(`the gate answers ${response.statusCode}: ${text.slice(0, 500)}`));
      });
    });
    call.once("error", reject);
    if (timeoutMs !== undefined) {
      let timer = setTimeout(() => {
        timer = setTimeout(() => call.destroy(new Error("the gate does not answer in time")), READ_FIRST_MS);
      }, timeoutMs);
      call.once("close", () => clearTimeout(timer));
    }
    call.end(body === undefined ? undefined : JSON.stringify(body));
  });
}
