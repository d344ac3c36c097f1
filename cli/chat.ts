/** `metalbridge chat`: chats with a service, or asks it one question. */

import { createInterface } from "node:readline/promises";
import { text as textOf } from "node:stream/consumers";
import type { Command } from "commander";
import { z } from "zod";
import { MetalbridgeError, remedyOf } from "../src/api/errors.ts";
import { INFERENCE_SERVICES } from "../src/api/kinds.ts";
import { withCluster } from "./cluster/cluster.ts";
import { findObject } from "./cluster/find.ts";
import { addNamespacedFlags, type ClusterFlags, countParser, parseServiceName } from "./cluster/flags.ts";
import { streamEvents } from "./endpoint/request.ts";
import {
  addSecretFlags,
  type EndpointTarget,
  findEndpointTarget,
  type SecretFlags,
} from "./endpoint/target.ts";
import { exitCodes } from "./program/exit-codes.ts";
import { printLine, printNote, writeOut } from "./program/output.ts";

interface Flags extends ClusterFlags, SecretFlags {
  readonly system?: string;
  readonly maxTokens?: number;
}

interface Message {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

type FindTarget = (signal: AbortSignal) => Promise<EndpointTarget>;

interface Conversation {
  readonly find: FindTarget;
  readonly system: readonly Message[];
  readonly flags: Flags;
}

const eventSchema = z.object({
  choices: z.array(z.object({ delta: z.object({ content: z.string().nullish() }) })),
});

/** Options and action of the verb. */
export function configureChat(command: Command): void {
  addSecretFlags(addNamespacedFlags(command))
    .argument("<service>", "name of the InferenceService", parseServiceName)
    .argument("[question]", "one question (default: a conversation, or the text on standard input)")
    .option("--system <text>", "system prompt")
    .option("--max-tokens <n>", "maximum length of an answer, in tokens", countParser(1))
    .action(chat);
}

async function chat(name: string, question: string | undefined, flags: Flags): Promise<void> {
  await withCluster("chat", flags, async (cluster) => {
    const service = await findObject(cluster, INFERENCE_SERVICES, name);
    const mode = service.spec.mode ?? "chat";
    if (mode !== "chat")
      throw new MetalbridgeError(
        "NotAChatService",
        `service ${name} has spec.mode ${mode}`,
        remedyOf("NotAChatService", { service: `${name} -n ${cluster.namespace}` }),
      );
    // Read again for each question: replicas move, and are unloaded while a conversation pauses.
    const find: FindTarget = async (signal) =>
      findEndpointTarget(cluster, await findObject(cluster, INFERENCE_SERVICES, name), flags, signal);
    const interrupted = new AbortController();
    const system: readonly Message[] =
      flags.system === undefined ? [] : [{ role: "system", content: flags.system }];
    const isTerminal = process.stdin.isTTY === true;
    const content = question ?? (isTerminal ? undefined : (await textOf(process.stdin)).trim());
    if (content === undefined) {
      await find(interrupted.signal);
      return converse(name, { find, system, flags });
    }
    process.once("SIGINT", () => interrupted.abort());
    const messages: readonly Message[] = [...system, { role: "user", content }];
    if ((await answer(find, messages, flags, interrupted.signal)) === undefined)
      process.exitCode = exitCodes.interrupted;
  });
}

/** Ctrl-C ends the current answer, or the conversation at the prompt. Ctrl-D ends both. */
async function converse(name: string, { find, system, flags }: Conversation): Promise<void> {
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
  printNote(`${name}: /clear starts a new conversation, Ctrl-D ends it`);
  terminal.setPrompt("> ");
  terminal.prompt();
  for await (const line of terminal) {
    const content = line.trim();
    if (content === "/clear") messages = system;
    else if (content !== "") {
      const asked: readonly Message[] = [...messages, { role: "user", content }];
      answering = new AbortController();
      const reply = await answer(find, asked, flags, answering.signal).catch(reportAnswerFailure);
      answering = undefined;
      if (reply !== undefined) messages = [...asked, { role: "assistant", content: reply }];
    }
    // Closed during an answer: a closed terminal cannot prompt again.
    if (isClosed) break;
    terminal.prompt();
  }
  printLine("");
}

/** A failed answer does not end the conversation. */
function reportAnswerFailure(error: unknown): undefined {
  if (!(error instanceof MetalbridgeError)) throw error;
  printNote(`${error.code}: ${error.message}`);
}

/** Prints the answer as it arrives. Undefined if the answer was interrupted. */
async function answer(
  find: FindTarget,
  messages: readonly Message[],
  { maxTokens }: Flags,
  signal: AbortSignal,
): Promise<string | undefined> {
  let text = "";
  try {
    const target = await find(signal);
    const [endpoint] = target.endpoints;
    if (endpoint === undefined) return undefined;
    const body = { model: target.model, messages, stream: true, max_tokens: maxTokens };
    const path = "/v1/chat/completions";
    for await (const event of streamEvents({ target, endpoint, path, body, signal })) {
      const read = eventSchema.safeParse(event);
      const piece = read.success ? (read.data.choices[0]?.delta.content ?? "") : "";
      writeOut(piece);
      text += piece;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
    printLine("");
    return undefined;
  }
  printLine("");
  return text;
}
