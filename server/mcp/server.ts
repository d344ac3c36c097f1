/** The MCP server: tools with validated arguments. Expected failures are results that a model can read. */
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import type { RequestOptions } from "@modelcontextprotocol/sdk/shared/protocol.js";
import { describeError, MetalbridgeError } from "../../src/api/errors.ts";
import type { Log } from "../../src/util/ports.ts";
import type { McpContext } from "./context.ts";
import { llmfitTools } from "./llmfit-tools.ts";
import { ownTools, type Tool } from "./tools.ts";

export interface McpOptions {
  readonly context: McpContext;
  readonly version: string;
  readonly log: Log;
}

const INSTRUCTIONS =
  "Machines and models of a Metalbridge cluster. Sizes named gb or Gb are in GiB. fit and recommend_models rank by score (0 to 100); explain_placement explains why a service runs where it does, or why it is queued.";
/** Time limit for the user's answer. */
const ANSWER_MS = 10 * 60_000;

/** The caller connects it to a transport. */
export function createMcp({ context, version, log }: McpOptions): McpServer {
  const mcp = new McpServer({ name: "metalbridge", version }, { instructions: INSTRUCTIONS });
  for (const tool of [...ownTools(context), ...llmfitTools(context)]) register(mcp, tool, log);
  return mcp;
}

function register(mcp: McpServer, tool: Tool, log: Log): void {
  const { name, description, input, isReadOnly } = tool;
  const annotations = { readOnlyHint: isReadOnly, destructiveHint: false, openWorldHint: !isReadOnly };
  mcp.registerTool(
    name,
    { description, inputSchema: input, annotations },
    async (args: unknown, extra: { readonly requestId: string | number; readonly signal: AbortSignal }) => {
      const options = { relatedRequestId: extra.requestId, signal: extra.signal, timeout: ANSWER_MS };
      try {
        const answer = await tool.answer(args as Readonly<Record<string, unknown>>, (question) =>
          askUser(mcp, question, options),
        );
        return textResult(answer);
      } catch (error) {
        if (error instanceof MetalbridgeError)
          return { ...textResult({ error: describeError(error), code: error.code }), isError: true };
        log.error({ err: error, tool: name }, "a tool failed");
        return { ...textResult({ error: "internal error" }), isError: true };
      }
    },
  );
}

function textResult(answer: object) {
  return { content: [{ type: "text" as const, text: JSON.stringify(answer, undefined, 2) }] };
}

/** Prompts the user by elicitation. A dismissed prompt counts as a refusal. */
async function askUser({ server }: McpServer, message: string, options: RequestOptions): Promise<boolean> {
  if (server.getClientCapabilities()?.elicitation === undefined)
    throw new MetalbridgeError("NotConfirmed", "this client cannot ask its user; nothing was changed", {
      summary: "use a client with elicitation, or deploy in a terminal",
      command: "metalbridge deploy",
    });
  const confirm = { type: "boolean", title: "Create it", default: false } as const;
  const requestedSchema = { type: "object", properties: { confirm }, required: ["confirm"] } as const;
  const { action, content } = await server.elicitInput(
    { mode: "form", message, requestedSchema: { ...requestedSchema, required: ["confirm"] } },
    options,
  );
  return action === "accept" && content?.confirm === true;
}
