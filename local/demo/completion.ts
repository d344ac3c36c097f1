/** Sends one chat completion request to the endpoint in the EndpointSlice, as kube-proxy would. */
import { z } from "zod";
import { MetalbridgeError } from "../../src/api/errors.ts";

const completion = z.object({
  choices: z.array(z.object({ message: z.object({ content: z.string() }) })).min(1),
});

/**
 * `endpoint` is `http://address:port`. Throws `NoAnswer`, with a cause if a retry can succeed: no connection, or 503. Undefined if it
 * asks for a key.
 */
export async function requestCompletion(
  endpoint: string,
  model: string,
  prompt: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const response = await fetch(`${endpoint}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: prompt }], max_tokens: 64 }),
    signal,
  }).catch((cause: unknown) => {
    throw new MetalbridgeError("NoAnswer", `${endpoint} did not answer`, undefined, { cause });
  });
  if (response.status === 401) return undefined;
  const body: unknown = await response.json().catch(() => undefined);
  const parsed = completion.safeParse(body);
  const first = parsed.success ? parsed.data.choices[0] : undefined;
  if (first === undefined) {
    const message = `${endpoint} answered ${response.status} ${JSON.stringify(body)?.slice(0, 300)}`;
    // From the gateway, while it does not know yet that an engine of an earlier run has exited.
    const cause = response.status === 503 ? new Error("unavailable") : undefined;
    throw new MetalbridgeError("NoAnswer", message, undefined, { cause });
  }
  return first.message.content.trim();
}
