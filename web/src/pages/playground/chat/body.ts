/** The request of a chat: the same for the playground and for its snippets. Pure. */

/** Texts as typed. An empty one leaves the choice to the engine. */
export interface Parameters {
  readonly system: string;
  readonly temperature: string;
  readonly topP: string;
  readonly maxTokens: string;
  readonly seed: string;
  readonly isJson: boolean;
}

export interface UserTurn {
  readonly role: "user";
  readonly id: number;
  readonly text: string;
  /** data: URLs. */
  readonly images: readonly string[];
}

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string | readonly ContentPart[];
}

type ContentPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image_url"; readonly image_url: { readonly url: string } };

export interface ChatBody {
  readonly model: string;
  readonly messages: readonly ChatMessage[];
  readonly temperature?: number | undefined;
  readonly top_p?: number | undefined;
  readonly max_tokens?: number | undefined;
  readonly seed?: number | undefined;
  readonly response_format?: { readonly type: "json_object" } | undefined;
}

export const DEFAULT_PARAMETERS: Parameters = {
  system: "",
  temperature: "",
  topP: "",
  maxTokens: "",
  seed: "",
  isJson: false,
};

export type NumberName = "temperature" | "topP" | "maxTokens" | "seed";

export interface NumberLimits {
  readonly min: number;
  readonly max: number;
  readonly step: number;
}

export const LIMITS: Readonly<Record<NumberName, NumberLimits>> = {
  temperature: { min: 0, max: 2, step: 0.1 },
  topP: { min: 0, max: 1, step: 0.05 },
  maxTokens: { min: 1, max: 1_000_000, step: 1 },
  seed: { min: 0, max: 2_147_483_647, step: 1 },
};

/** Undefined for an empty text and for a value that is out of its limits. */
export function numberOf(name: NumberName, text: string): number | undefined {
  if (text.trim() === "") return undefined;
  const value = Number(text);
  const { min, max, step } = LIMITS[name];
  if (!Number.isFinite(value) || value < min || value > max) return undefined;
  return step === 1 && !Number.isInteger(value) ? undefined : value;
}

export function isInvalid(name: NumberName, text: string): boolean {
  return text.trim() !== "" && numberOf(name, text) === undefined;
}

/** Answers without text, such as failed ones, are left out. */
export function chatBody(
  model: string,
  turns: readonly (UserTurn | { readonly role: "assistant"; readonly text: string })[],
  parameters: Parameters,
): ChatBody {
  const system: ChatMessage[] =
    parameters.system.trim() === "" ? [] : [{ role: "system", content: parameters.system }];
  const messages = turns.flatMap((turn): ChatMessage[] => {
    if (turn.role === "user") return [{ role: "user", content: contentOf(turn) }];
    return turn.text === "" ? [] : [{ role: "assistant", content: turn.text }];
  });
  return {
    model,
    messages: [...system, ...messages],
    temperature: numberOf("temperature", parameters.temperature),
    top_p: numberOf("topP", parameters.topP),
    max_tokens: numberOf("maxTokens", parameters.maxTokens),
    seed: numberOf("seed", parameters.seed),
    response_format: parameters.isJson ? { type: "json_object" } : undefined,
  };
}

function contentOf({ text, images }: UserTurn): ChatMessage["content"] {
  if (images.length === 0) return text;
  const parts: ContentPart[] = images.map((url) => ({ type: "image_url", image_url: { url } }));
  return [...parts, { type: "text", text }];
}
