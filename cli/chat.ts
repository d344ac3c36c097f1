/** `metalbridge chat`: a conversation with a service, or one question. */

import { createInterface } from "node:readline/promises";
import { text as textOf } from "node:stream/consumers";
import type { Command } from "commander";
import { z } from "zod";
import { MetalbridgeError } from "../src/api/errors.ts";
import { withCluster } from "./cluster/cluster.ts";
import { findService } from "./cluster/find.ts";
import { addNamespacedFlags, type ClusterFlags, countParser, parseServiceName } from "./cluster/flags.ts";
import { streamEvents } from "./endpoint/request.ts";
import {
  addSecretFlags,
  type EndpointTarget,
  findEndpointTarget,
  type SecretFlags,
} from "./endpoint/target.ts";
import { exitCodes } from "./program/exit-codes.ts";
import { writeErr, writeOut } from "./program/output.ts";

interface Flags extends ClusterFlags, SecretFlags {
  readonly system?: string;
  readonly maxTokens?: number;
}

interface Message {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

const eventSchema = z.object({
  choices: z.array(z.object({ delta: z.object({ content: z.string().nullish() }) })),
});

/** Options and action of the verb. */
export function configureChat(command: Command): void {
  addSecretFlags(addNamespacedFlags(command))
    .argument("<service>", "name of the InferenceService", parseServiceName)
    .argument("[question]", "one question; absent: a conversation, or what standard input holds")
    .option("--system <text>", "system prompt")
    .option("--max-tokens <n>", "longest answer", countParser(1))
    .action(chat);
}

async function chat(name: string, question: string | undefined, flags: Flags): Promise<void> {
  await withCluster("chat", flags, async (cluster) => {
    const service = await findService(cluster, name);
    const mode = service.spec.mode ?? "chat";
    if (mode !== "chat")
      throw new MetalbridgeError("NotAChatService", `service ${name} has spec.mode ${mode}`);
    const target = await findEndpointTarget(cluster, service, flags);
    const system: readonly Message[] =
      flags.system === undefined ? [] : [{ role: "system", content: flags.system }];
    const isTerminal = process.stdin.isTTY === true;
    const asked = question ?? (isTerminal ? undefined : (await textOf(process.stdin)).trim());
    if (asked === undefined) return converse(target, system, flags);
    const interrupted = new AbortController();
    process.once("SIGINT", () => interrupted.abort());
    const answer = await say(
      target,
      [...system, { role: "user", content: asked }],
      flags,
      interrupted.signal,
    );
    if (answer === undefined) process.exitCode = exitCodes.interrupted;
  });
}

/** Ctrl-C ends the answer, at the prompt the conversation; Ctrl-D ends both. */
async function converse(target: EndpointTarget, system: readonly Message[], flags: Flags): Promise<void> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  let messages = system;
  let answering: AbortController | undefined;
  terminal.on("SIGINT", () => {
    if (answering === undefined) terminal.close();
    else answering.abort();
  });
  let isClosed = false;
  terminal.on("close", () => {
    isClosed = true;
    answering?.abort();
  });
  writeErr(`${target.model}: /clear forgets the conversation, Ctrl-D ends it\n`);
  terminal.setPrompt("> ");
  terminal.prompt();
  for await (const line of terminal) {
    const content = line.trim();
    if (content === "/clear") messages = system;
    else if (content !== "") {
      const asked: readonly Message[] = [...messages, { role: "user", content }];
      answering = new AbortController();
      const answer = await say(target, asked, flags, answering.signal).catch(tell);
      answering = undefined;
      if (answer !== undefined) messages = [...asked, { role: "assistant", content: answer }];
    }
    // Closed in the middle of an answer: it can prompt no more.
    if (isClosed) break;
    terminal.prompt();
  }
  writeOut("\n");
}

/** A failed answer does not end the conversation. */
function tell(error: unknown): undefined {
  if (!(error instanceof MetalbridgeError)) throw error;
  writeErr(`${error.code}: ${error.message}\n`);
}

/** Prints the answer as it comes; undefined where it was interrupted. */
async function say(
  target: EndpointTarget,
  messages: readonly Message[],
  { maxTokens }: Flags,
  signal: AbortSignal,
): Promise<string | undefined> {
  const [endpoint] = target.endpoints;
  if (endpoint === undefined) return undefined;
  const limit = maxTokens === undefined ? {} : { max_tokens: maxTokens };
  const body = { model: target.model, messages, stream: true, ...limit };
  let answer = "";
  try {
    for await (const event of streamEvents({
      target,
      endpoint,
      path: "/v1/chat/completions",
      body,
      signal,
    })) {
      const read = eventSchema.safeParse(event);
      const piece = read.success ? (read.data.choices[0]?.delta.content ?? "") : "";
      writeOut(piece);
      answer += piece;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
    writeOut("\n");
    return undefined;
  }
  writeOut("\n");
  return answer;
}
