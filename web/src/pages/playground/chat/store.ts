/** The conversations of this tab. They survive a change of the page, and are stored nowhere. */
import { useSyncExternalStore } from "react";
import { hostOf, streamGateway } from "../../../api/gateway.ts";
import { chatBody, DEFAULT_PARAMETERS, type Parameters, type UserTurn } from "./body.ts";
import { addToTiming, type Timing } from "./figures.ts";
import { readStream } from "./stream.ts";

/** Left and right. The right one is used only in a comparison. */
export type Side = 0 | 1;

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

export interface Pane {
  /** The service that is asked; empty until one is chosen. */
  readonly service: string;
  readonly turns: readonly Turn[];
}

export interface Chat {
  readonly panes: readonly [Pane, Pane];
  readonly isComparing: boolean;
  readonly parameters: Parameters;
  readonly draft: string;
  readonly images: readonly string[];
}

const EMPTY_PANE: Pane = { service: "", turns: [] };

let chat: Chat = {
  panes: [EMPTY_PANE, EMPTY_PANE],
  isComparing: false,
  parameters: DEFAULT_PARAMETERS,
  draft: "",
  images: [],
};
let lastId = 0;
const listeners = new Set<() => void>();
const running = new Map<Side, AbortController>();

export function useChat(): Chat {
  return useSyncExternalStore(subscribe, () => chat);
}

export function changeChat(changes: Partial<Omit<Chat, "panes">>): void {
  chat = { ...chat, ...changes };
  for (const listener of listeners) listener();
}

export function chooseService(side: Side, service: string): void {
  changePane(side, { service });
}

export function isBusy({ turns }: Pane): boolean {
  const last = turns.at(-1);
  return last?.role === "assistant" && (last.state.at === "waiting" || last.state.at === "writing");
}

/** The sides that a new message goes to. */
export function sidesOf({ isComparing }: Chat): readonly Side[] {
  return isComparing ? [0, 1] : [0];
}

/** Sends the draft to every side that is shown. */
export function send(): void {
  const { draft, images } = chat;
  changeChat({ draft: "", images: [] });
  for (const side of sidesOf(chat)) {
    const question: UserTurn = { role: "user", id: nextId(), text: draft, images };
    void ask(side, [...(chat.panes[side]?.turns ?? []), question]);
  }
}

/** Ends the requests, also in the engine. */
export function stop(side?: Side): void {
  for (const one of side === undefined ? ([0, 1] as const) : [side]) running.get(one)?.abort();
}

/** Answers the question before `answerId` once more. Later turns are removed. */
export function regenerate(side: Side, answerId: number): void {
  const { turns } = chat.panes[side];
  void ask(side, turns.slice(0, indexOf(turns, answerId)));
}

/** Replaces the text of a question, and answers it. Later turns are removed. */
export function resend(side: Side, questionId: number, text: string): void {
  const { turns } = chat.panes[side];
  const at = indexOf(turns, questionId);
  const question = turns[at];
  if (question?.role === "user") void ask(side, [...turns.slice(0, at), { ...question, text }]);
}

export function clear(): void {
  stop();
  for (const side of [0, 1] as const) changePane(side, { turns: [] });
}

async function ask(side: Side, turns: readonly Turn[]): Promise<void> {
  running.get(side)?.abort();
  const controller = new AbortController();
  running.set(side, controller);
  const { service } = chat.panes[side];
  const id = nextId();
  const waiting = { role: "assistant", id, service, text: "", reasoning: "", host: undefined } as const;
  let answer: AnswerTurn = {
    ...waiting,
    timing: { startMs: performance.now(), pieces: 0 },
    state: { at: "waiting" },
  };
  changePane(side, { turns: [...turns, answer] });
  const body = chatBody(service, turns, chat.parameters);
  const write = perFrame(() => changeAnswer(side, answer));
  let finish: string | undefined;
  const end = (state: AnswerState) => {
    answer = { ...answer, state };
    changeAnswer(side, answer);
  };
  try {
    const streamed = { ...body, stream: true, stream_options: { include_usage: true } };
    const response = await streamGateway("/v1/chat/completions", streamed, controller.signal);
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
  } finally {
    if (running.get(side) === controller) running.delete(side);
  }
}

function changePane(side: Side, changes: Partial<Pane>): void {
  const [left, right] = chat.panes;
  const pane = { ...chat.panes[side], ...changes };
  chat = { ...chat, panes: side === 0 ? [pane, right] : [left, pane] };
  for (const listener of listeners) listener();
}

/** Nothing happens if the answer has been removed in the meantime. */
function changeAnswer(side: Side, answer: AnswerTurn): void {
  const { turns } = chat.panes[side];
  const at = indexOf(turns, answer.id);
  if (turns[at]?.id === answer.id) changePane(side, { turns: turns.with(at, answer) });
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

function indexOf(turns: readonly Turn[], id: number): number {
  return turns.findLastIndex((turn) => turn.id === id);
}

function nextId(): number {
  lastId += 1;
  return lastId;
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
