/** Reads the state of the running agent from its socket. */
import { connect } from "node:net";
import { parseAgentStatus } from "../src/api/agent-status.ts";
import type { ObservedAgent } from "./plan/observed.ts";

/** Time limit for a response of a busy agent. A socket without an agent refuses immediately. */
const ANSWER_MS = 10_000;
const MAX_BYTES = 64 << 10;

/** Never rejects. The result is "none" only if no process listens on the socket. */
export function queryAgent(path: string): Promise<ObservedAgent> {
  return new Promise((resolve) => {
    const socket = connect(path);
    let text = "";
    const finish = (agent: ObservedAgent): void => {
      clearTimeout(timeout);
      socket.destroy();
      resolve(agent);
    };
    // The limit is for the whole response, because a slow peer would never be idle.
    const timeout = setTimeout(() => finish({ at: "unknown", why: "it does not answer" }), ANSWER_MS);
    socket.on("data", (chunk) => {
      text += chunk.toString();
      if (text.length > MAX_BYTES) finish({ at: "unknown", why: "its response is too long" });
    });
    socket.once("end", () => {
      const status = parseAgentStatus(text);
      const why = "its response is not an agent's";
      finish(status === undefined ? { at: "unknown", why } : { at: "answers", ...status });
    });
    socket.once("error", (error: NodeJS.ErrnoException) => {
      const isNone = ["ENOENT", "ECONNREFUSED", "ENOTDIR"].includes(error.code ?? "");
      finish(isNone ? { at: "none" } : { at: "unknown", why: error.message });
    });
  });
}
