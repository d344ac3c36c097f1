/** What an agent answers on its socket: install and upgrade judge by it whether a version works. Pure. */
import * as z from "zod";

const agentAnswerSchema = z.object({
  pid: z.int().positive(),
  version: z.string(),
  /** serving: engines are adopted and the agent supervises them. */
  phase: z.enum(["starting", "serving"]),
  /** Error codes of what keeps it from being ready; empty when it is. */
  troubles: z.array(z.string()),
});

export type AgentReply = z.infer<typeof agentAnswerSchema>;

/** The pid stands alone in the first line: that is all an agent before 0.2 answers. */
export function renderAgentReply(answer: AgentReply): string {
  return `${answer.pid}\n${JSON.stringify(answer)}\n`;
}

/** Undefined when it is no answer of an agent; without a version when it is one of an agent before 0.2. */
export function parseAgentReply(text: string): AgentReply | { readonly pid: number } | undefined {
  const [pid = "", rest = ""] = text.split("\n");
  if (!/^[1-9]\d*$/.test(pid)) return undefined;
  const parsed = agentAnswerSchema.safeParse(jsonOf(rest));
  return parsed.success ? parsed.data : { pid: Number(pid) };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
