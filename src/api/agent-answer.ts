/** The answer of an agent on its socket, by which install and upgrade decide whether a version works. Pure. */
import * as z from "zod";
import { parseJson } from "../util/parse-json.ts";

const agentAnswerSchema = z.object({
  pid: z.int().positive(),
  version: z.string(),
  /** serving: the agent has adopted the engines and supervises them. */
  phase: z.enum(["starting", "serving"]),
  /** Error codes of the problems that keep the agent from being ready; empty if it is ready. */
  troubles: z.array(z.string()),
});

export type AgentReply = z.infer<typeof agentAnswerSchema>;

/** The first line holds the pid alone, for an agent that finds the state folder in use. */
export function renderAgentReply(answer: AgentReply): string {
  return `${answer.pid}\n${JSON.stringify(answer)}\n`;
}

/** Undefined if the text is not an agent's answer. */
export function parseAgentReply(text: string): AgentReply | undefined {
  return agentAnswerSchema.safeParse(parseJson(text.split("\n")[1] ?? "")).data;
}
