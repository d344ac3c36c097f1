/** Requests to the console's own server. Every failure is a `ConsoleError` with what to do. */
import { deniedRight, missingRight } from "../../../src/console/missing-right.ts";
import { CONSOLE_HEADER, CONSOLE_PATH } from "../../../src/console/protocol.ts";

/** A field that the API server refused. */
export interface FieldCause {
  readonly field: string;
  readonly message: string;
}

export class ConsoleError extends Error {
  readonly code: string;
  readonly status: number;
  readonly remedy: string | undefined;
  readonly causes: readonly FieldCause[];
  /** The whole body. */
  readonly answer: unknown;

  constructor(
    code: string,
    message: string,
    {
      status = 0,
      remedy,
      causes = [],
      answer,
    }: {
      status?: number;
      remedy?: string | undefined;
      causes?: readonly FieldCause[];
      answer?: unknown;
    } = {},
  ) {
    super(message);
    this.name = "ConsoleError";
    this.code = code;
    this.status = status;
    this.remedy = remedy;
    this.causes = causes;
    this.answer = answer;
  }
}

export interface RequestOptions {
  readonly method?: string;
  readonly body?: unknown;
  readonly contentType?: string;
  readonly accept?: string;
  readonly signal?: AbortSignal | undefined;
}

export const SESSION_PATH = `${CONSOLE_PATH}/session`;
const MAX_TEXT = 2_000;
let whenSignedOut: () => void = () => undefined;

/** `act` is called when an answer says that there is no session. */
export function onSignedOut(act: () => void): void {
  whenSignedOut = act;
}

/** The JSON of a 2xx answer. Rejects with ConsoleError. */
export async function requestJson<T>(path: string, options: RequestOptions = {}): Promise<T> {
  return jsonOf(await request(path, options));
}

export async function jsonOf<T>(answer: Response): Promise<T> {
  const text = await answer.text();
  try {
    return (text === "" ? undefined : JSON.parse(text)) as T;
  } catch {
    throw new ConsoleError("BadAnswer", `${answer.url} did not answer with JSON`, { status: answer.status });
  }
}

/** A 2xx answer. Rejects with ConsoleError. */
export async function request(
  path: string,
  {
    method = "GET",
    body,
    contentType = "application/json",
    accept = "application/json",
    signal,
  }: RequestOptions = {},
): Promise<Response> {
  const headers: Record<string, string> = { [CONSOLE_HEADER]: "1", accept };
  const init: RequestInit = { method, headers, cache: "no-store" };
  if (signal !== undefined) init.signal = signal;
  if (body !== undefined) {
    headers["content-type"] = contentType;
    init.body = typeof body === "string" ? body : JSON.stringify(body);
  }
  let answer: Response;
  try {
    answer = await fetch(path, init);
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw new ConsoleError("ServerUnreachable", "The server of the console cannot be reached.", {
      remedy: "Check that `metalbridge server` is running and that the network is up. Nothing was changed.",
    });
  }
  if (answer.ok) return answer;
  const error = await errorOf(answer);
  // The gateway's 401 is about its key; that about the session itself is what the listener asks for.
  if (answer.status === 401 && path !== SESSION_PATH && !isOfGateway(error)) whenSignedOut();
  throw error;
}

/** True for an error in the shape of OpenAI's API: by the gateway, or by the engine behind it. */
export function isOfGateway({ answer }: ConsoleError): boolean {
  return typeof answer === "object" && answer !== null && "error" in answer;
}

interface FailureBody {
  readonly code?: string | number;
  readonly reason?: string;
  readonly message?: string;
  readonly remedy?: string;
  readonly details?: { readonly causes?: readonly { field?: string; message?: string }[] };
  readonly error?:
    | string
    | { readonly code?: string | number; readonly type?: string; readonly message?: string };
}

/** Both a `Refusal` of the console and a `Status` of the API server have a message. */
async function errorOf(answer: Response): Promise<ConsoleError> {
  const { status } = answer;
  const text = await answer.text().catch(() => "");
  let body: FailureBody = {};
  try {
    body = JSON.parse(text) as FailureBody;
  } catch {
    body = { message: text.slice(0, MAX_TEXT).trim() };
  }
  if (body.error !== undefined) return gatewayError(body, status, answer.headers.get("retry-after"));
  const denied = status === 403 ? deniedRight(body.message ?? "") : undefined;
  if (denied !== undefined) {
    const { code, message, remedy } = missingRight(denied);
    return new ConsoleError(code, message, { status, remedy, answer: body });
  }
  const code = body.reason ?? (typeof body.code === "string" ? body.code : `Http${status}`);
  const causes = (body.details?.causes ?? []).flatMap(({ field, message }) =>
    field === undefined || message === undefined ? [] : [{ field, message }],
  );
  const message = body.message === undefined || body.message === "" ? `status ${status}` : body.message;
  return new ConsoleError(code, message, { status, remedy: body.remedy, causes, answer: body });
}

/** Also for an error within a stream, which has no status of its own. */
export function gatewayError(
  answer: FailureBody,
  status: number,
  retryAfter: string | null = null,
): ConsoleError {
  const error = typeof answer.error === "string" ? { message: answer.error } : answer.error;
  const { code, type, message = "" } = error ?? {};
  const wait = `in ${retryAfter} s`;
  const remedy = retryAfter === null || message.includes(wait) ? undefined : `Try again ${wait}.`;
  const name = typeof code === "string" ? code : (type ?? `Http${status}`);
  return new ConsoleError(name, message === "" ? `status ${status}` : message, { status, remedy, answer });
}
