/** Asks the agent on its socket who it is. */
import { connect } from "node:net";
import { parseAgentReply } from "../src/api/agent-answer.ts";
import type { ObservedAgent } from "./plan/observed.ts";

/** A busy one answers late; one that is gone refuses at once. */
const ANSWER_MS = 10_000;
const MAX_BYTES = 64 << 10;

/** Never rejects. "none" only when nothing listens there. */
export function queryAgent(path: string): Promise<ObservedAgent> {
  return new Promise((resolve) => {
    const socket = connect(path);
    let text = "";
    const finish = (agent: ObservedAgent): void => {
      clearTimeout(late);
      socket.destroy();
      resolve(agent);
    };
    // As a whole: a peer that drips would never be idle.
    const late = setTimeout(() => finish({ at: "unknown", why: "it does not answer" }), ANSWER_MS);
    socket.on("data", (chunk) => {
      text += chunk.toString();
      if (text.length > MAX_BYTES) finish({ at: "unknown", why: "its answer is too long" });
    });
    socket.once("end", () => finish(agentOf(text)));
    socket.once("error", (error: NodeJS.ErrnoException) => {
      const isNone = error.code === "ENOENT" || error.code === "ECONNREFUSED" || error.code === "ENOTDIR";
      finish(isNone ? { at: "none" } : { at: "unknown", why: error.message });
    });
  });
}

function agentOf(text: string): ObservedAgent {
  const answer = parseAgentReply(text);
  if (answer === undefined) return { at: "unknown", why: "its answer is not an agent's" };
  return "version" in answer ? { at: "answers", ...answer } : { at: "old", pid: answer.pid };
}
