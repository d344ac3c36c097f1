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

/** The first line holds the pid alone, which is the complete answer of an agent before 0.2. */
export function renderAgentReply(answer: AgentReply): string {
  return `${answer.pid}\n${JSON.stringify(answer)}\n`;
}

/** Undefined if the text is not an agent's answer. An agent before 0.2 answers without a version. */
export function parseAgentReply(text: string): AgentReply | { readonly pid: number } | undefined {
  const [pid = "", json = ""] = text.split("\n");
  if (!/^[1-9]\d*$/.test(pid)) return undefined;
  const parsed = agentAnswerSchema.safeParse(parseJson(json));
  return parsed.success ? parsed.data : { pid: Number(pid) };
}
