/** The response of an agent on its socket, by which install and upgrade decide whether a version works. Pure. */
import * as z from "zod";
import { parseJson } from "../util/parse-json.ts";

const agentStatusSchema = z.object({
  pid: z.int().positive(),
  version: z.string(),
  /** serving: the agent has adopted the engines and supervises them. */
  phase: z.enum(["starting", "serving"]),
  /** Error codes of the problems that keep the agent from being ready; empty if it is ready. */
  troubles: z.array(z.string()),
});

export type AgentStatus = z.infer<typeof agentStatusSchema>;

/** The first line holds the pid alone, for an agent that finds the state folder in use. */
export function renderAgentStatus(status: AgentStatus): string {
  return `${status.pid}\n${JSON.stringify(status)}\n`;
}

/** Undefined if the text is not an agent's status. */
export function parseAgentStatus(text: string): AgentStatus | undefined {
  return agentStatusSchema.safeParse(parseJson(text.split("\n")[1] ?? "")).data;
}
