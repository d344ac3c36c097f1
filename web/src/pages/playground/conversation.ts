/** The conversation of this tab. It survives a change of the page, and is stored nowhere. */
import { useSyncExternalStore } from "react";
import { hostOf, streamGateway } from "../../api/gateway.ts";
import { chatBody, DEFAULT_PARAMETERS, type Parameters, type UserTurn } from "./request.ts";
import { addToTiming, readStream, type Timing } from "./stream.ts";

export type AnswerState =
  | { readonly at: "waiting" }
  | { readonly at: "writing" }
  | { readonly at: "done"; readonly finish: string | undefined }
  | { readonly at: "stopped" }
  | { readonly at: "failed"; readonly error: Error };

export interface AnswerTurn {
  readonly role: "assistant";
  readonly id: number;
  /** namespace/name */
  readonly service: string;
  readonly text: string;
  readonly reasoning: string;
  /** Where the engine runs, if that is known. */
  readonly host: string | undefined;
  readonly timing: Timing;
  readonly state: AnswerState;
}

export type Turn = UserTurn | AnswerTurn;

export interface Conversation {
  /** The service that is asked; empty until one is chosen. */
  readonly service: string;
  readonly turns: readonly Turn[];
  readonly parameters: Parameters;
  readonly draft: string;
  readonly images: readonly string[];
}

let conversation: Conversation = {
  service: "",
  turns: [],
  parameters: DEFAULT_PARAMETERS,
  draft: "",
  images: [],
};
let lastId = 0;
let running: AbortController | undefined;
const listeners = new Set<() => void>();

export function useConversation(): Conversation {
  return useSyncExternalStore(subscribe, () => conversation);
}

export function changeConversation(changes: Partial<Conversation>): void {
  conversation = { ...conversation, ...changes };
  for (const listener of listeners) listener();
}

export function isBusy({ state }: AnswerTurn): boolean {
  return state.at === "waiting" || state.at === "writing";
}

/** Sends the draft. */
export function send(): void {
  const { turns, draft, images } = conversation;
  changeConversation({ draft: "", images: [] });
  void ask([...turns, { role: "user", id: nextId(), text: draft, images }]);
}

/** Ends the request, also in the engine. */
export function stop(): void {
  running?.abort();
}

/** Answers the question before `answerId` once more. Later turns are removed. */
export function regenerate(answerId: number): void {
  void ask(conversation.turns.slice(0, indexOf(answerId)));
}

/** Replaces the text of a question, and answers it. Later turns are removed. */
export function resend(questionId: number, text: string): void {
  const { turns } = conversation;
  const at = indexOf(questionId);
  const question = turns[at];
  if (question?.role === "user") void ask([...turns.slice(0, at), { ...question, text }]);
}

export function clear(): void {
  stop();
  changeConversation({ turns: [] });
}

async function ask(turns: readonly Turn[]): Promise<void> {
  stop();
  const controller = new AbortController();
  running = controller;
  const { service, parameters } = conversation;
  let answer: AnswerTurn = {
    role: "assistant",
    id: nextId(),
    service,
    text: "",
    reasoning: "",
    host: undefined,
    timing: { startMs: performance.now(), pieces: 0 },
    state: { at: "waiting" },
  };
  changeConversation({ turns: [...turns, answer] });
  const write = perFrame(() => changeAnswer(answer));
  let finish: string | undefined;
  const end = (state: AnswerState) => {
    answer = { ...answer, state };
    changeAnswer(answer);
  };
  try {
    const body = {
      ...chatBody(service, turns, parameters),
      stream: true,
      stream_options: { include_usage: true },
    };
    const response = await streamGateway("/v1/chat/completions", body, controller.signal);
    answer = { ...answer, host: hostOf(response) };
    if (response.body !== null)
      await readStream(response.body, (delta) => {
        const text = answer.text + delta.text;
        const reasoning = answer.reasoning + delta.reasoning;
        const timing = addToTiming(answer.timing, delta, performance.now());
        answer = { ...answer, text, reasoning, timing, state: { at: "writing" } };
        finish = delta.finish ?? finish;
        write();
      });
    end({ at: "done", finish });
  } catch (error) {
    if (controller.signal.aborted) end({ at: "stopped" });
    else end({ at: "failed", error: error instanceof Error ? error : new Error(String(error)) });
  }
}

/** Nothing happens if the answer has been removed in the meantime. */
function changeAnswer(answer: AnswerTurn): void {
  const at = indexOf(answer.id);
  if (at !== -1) changeConversation({ turns: conversation.turns.with(at, answer) });
}

/** Calls `act` once for many calls of the same frame. A hidden tab gets no frames. */
function perFrame(act: () => void): () => void {
  let isPending = false;
  return () => {
    if (isPending) return;
    isPending = true;
    requestAnimationFrame(() => {
      isPending = false;
      act();
    });
  };
}

function indexOf(id: number): number {
  return conversation.turns.findLastIndex((turn) => turn.id === id);
}

function nextId(): number {
  lastId += 1;
  return lastId;
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
