import { expect, test } from "vitest";
import { ConsoleError } from "../../api/request.ts";
import { addToTiming, type Delta, figuresOf, parseDelta, readStream, type Timing } from "./stream.ts";

function streamOf(...parts: readonly Uint8Array[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });
}

async function collect(...parts: readonly Uint8Array[]): Promise<readonly Delta[]> {
  const deltas: Delta[] = [];
  await readStream(streamOf(...parts), (delta) => void deltas.push(delta));
  return deltas;
}

const event = (chunk: object) => `data: ${JSON.stringify(chunk)}\n\n`;

test("a stream that is cut anywhere gives the same text", async () => {
  const text = [
    event({ choices: [{ delta: { role: "assistant", content: null } }] }),
    event({ choices: [{ delta: { reasoning_content: "hm" } }] }),
    event({ choices: [{ delta: { content: "Grüß 🙂" } }] }),
    event({ choices: [{ delta: {}, finish_reason: "stop" }] }),
    event({
      choices: [],
      usage: { prompt_tokens: 3, completion_tokens: 2 },
      timings: { predicted_per_second: 41.5 },
    }),
    "data: [DONE]\n\n",
  ].join("");
  const bytes = new TextEncoder().encode(text);
  for (const size of [1, 7, bytes.length]) {
    const parts: Uint8Array[] = [];
    for (let at = 0; at < bytes.length; at += size) parts.push(bytes.slice(at, at + size));
    const deltas = await collect(...parts);
    expect(deltas.map((delta) => delta.text).join("")).toBe("Grüß 🙂");
    expect(deltas.map(({ reasoning }) => reasoning).join("")).toBe("hm");
    expect(deltas.flatMap(({ finish }) => finish ?? [])).toEqual(["stop"]);
    expect(deltas.at(-1)).toMatchObject({
      usage: { prompt_tokens: 3, completion_tokens: 2 },
      tokensPerSecond: 41.5,
    });
  }
});

test("an error within the stream is the engine's, word for word", async () => {
  const failed = collect(new TextEncoder().encode(event({ error: { code: 500, message: "out of memory" } })));
  await expect(failed).rejects.toBeInstanceOf(ConsoleError);
  await expect(failed).rejects.toMatchObject({ code: "Http500", message: "out of memory" });
});

test("a stream that ends or breaks before the answer is complete is an error that says what to do", async () => {
  const part = new TextEncoder().encode(event({ choices: [{ delta: { content: "Half" } }] }));
  const expected = { code: "AnswerInterrupted", remedy: expect.stringMatching(/^Try again/) };
  await expect(collect(part)).rejects.toMatchObject(expected);
  const broken = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(part),
    pull: (controller) => controller.error(new TypeError("network error")),
  });
  const texts: string[] = [];
  await expect(readStream(broken, ({ text }) => void texts.push(text))).rejects.toMatchObject(expected);
  expect(texts).toEqual(["Half"]);
});

test("an event that is not JSON fails", () => {
  expect(() => parseDelta("<html>")).toThrow(SyntaxError);
});

test("the speed is that of the tokens after the first", () => {
  let timing: Timing = { startMs: 1_000, pieces: 0 };
  timing = addToTiming(timing, { text: "", reasoning: "" }, 1_100);
  expect(figuresOf(timing)).toMatchObject({ firstTokenMs: undefined, tokensPerSecond: undefined, tokens: 0 });
  timing = addToTiming(timing, { text: "a", reasoning: "" }, 1_250);
  timing = addToTiming(timing, { text: "b", reasoning: "" }, 2_250);
  expect(figuresOf(timing)).toEqual({
    firstTokenMs: 250,
    tokensPerSecond: 1,
    tokens: 2,
    promptTokens: undefined,
    isEstimated: true,
  });
  const usage = { prompt_tokens: 7, completion_tokens: 21 };
  timing = addToTiming(timing, { text: "", reasoning: "", usage }, 2_300);
  expect(figuresOf(timing)).toMatchObject({
    tokensPerSecond: 20,
    tokens: 21,
    promptTokens: 7,
    isEstimated: false,
  });
  timing = addToTiming(timing, { text: "", reasoning: "", tokensPerSecond: 33 }, 2_310);
  expect(figuresOf(timing)).toMatchObject({ tokensPerSecond: 33, tokens: 21 });
});

test("an answer that arrives at once has no speed of its own", () => {
  let timing: Timing = { startMs: 0, pieces: 0 };
  for (const atMs of [50, 51, 52]) timing = addToTiming(timing, { text: "a", reasoning: "" }, atMs);
  expect(figuresOf(timing)).toMatchObject({ firstTokenMs: 50, tokensPerSecond: undefined, tokens: 3 });
});
