/** What Envoy reads of bodies: the model of a request and the tokens of a response, in bounded memory. */
import { readFileSync, writeFileSync } from "node:fs";
import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { describeUnless } from "../../../test/bed/describe-unless.ts";
import { whyNoEnvoy } from "../../../test/bed/envoy.ts";
import {
  type Engine,
  type EnvoyBed,
  grant,
  JSON_TYPE,
  serve,
  startEngine,
  startEnvoyBed,
} from "./fixtures/envoy-bed.ts";

const MIB = 1 << 20;
const BOUNDARY = "a-b+c.d";
const FORM_TYPE = { "content-type": `Multipart/form-data; charset=x; boundary="${BOUNDARY}"` };
const MODEL = 'name="model"';
const FILE = 'name="file"; filename="a.wav"';

/** Each part is the end of its header content-disposition, and its value. */
function form(...parts: readonly (readonly [string, string])[]): string {
  const rendered = parts.map(
    ([about, value]) =>
      `--${BOUNDARY}\r\ncontent-type: text/plain\r\nContent-Disposition: form-data; ${about}\r\n\r\n${value}\r\n`,
  );
  return `${rendered.join("")}--${BOUNDARY}--\r\n`;
}

describeUnless(whyNoEnvoy, "bodies through Envoy", () => {
  let bed: EnvoyBed;
  let engine: Engine;

  beforeAll(async () => {
    [bed, engine] = await Promise.all([startEnvoyBed({ limits: { maxBodyBytes: 4 * MIB } }), startEngine()]);
    await serve(bed, engine);
  });

  beforeEach(() => {
    bed.decisions.respond = () => grant("default/a");
    bed.decisions.received.length = 0;
    engine.received.length = 0;
    engine.respond = () => ({ headers: JSON_TYPE, body: "{}" });
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await engine[Symbol.asyncDispose]();
  });

  const chat = (
    body: unknown,
    headers: Readonly<Record<string, string>> = JSON_TYPE,
    path = "/v1/chat/completions",
  ) => bed.call(path, { body, headers });
  const asked = () => bed.decisions.received.filter(({ path }) => path.startsWith("/decide/"));

  const late = (text: string, count: number) => `{"messages":["${text.repeat(count)}"],"model":"late"}`;
  it.each([
    ["after megabytes", late("x", 3 * MIB), "late"],
    ["after megabytes of escapes", late(String.raw`\"\\`, 700_000), "late"],
    ["after megabytes of numbers", `{"a":[${"0,".repeat(MIB)}0],"model":"late"}`, "late"],
    ["after many objects", `{"a":[${'{"model":"no","b":[]},'.repeat(50_000)}0],"model":"late"}`, "late"],
    ["between spaces", '\r\n{ "a" : { "model" : "no" } ,\n\t"model" : "yes" , "b" : null }\n', "yes"],
    ["as the last of equal keys", '{"model":"one","model":"two"}', "two"],
    ["with escapes", String.raw`{"model":"a\/b\u002dc"}`, "a/b-c"],
    ["under an escaped key", String.raw`{"model":"a","mod\u0065l":"b"}`, "b"],
    ["in a key that ends with a backslash", String.raw`{"model\\":"a","model":"b"}`, "b"],
    ["with control characters", String.raw`{"model":"a\r\nx-evil: 1\u0000\u007f"}`, "a??x-evil: 1??"],
    ["as no text", '{"model":{"model":"a"},"b":5}', undefined],
    ["only below", '{"a":{"model":"a"},"b":["model","c"],"c":"model"}', undefined],
    ["of a list", '[{"model":"a"}]', undefined],
    ["of a form", form([FILE, "abc"], [MODEL, "whisper"]), "whisper"],
    ["of a form, after megabytes", form([FILE, "\r\n--".repeat(MIB / 2)], [MODEL, "late"]), "late"],
    ["of a form, before a file", form([MODEL, "first"], [FILE, "x".repeat(MIB)]), "first"],
    ["of a form with many parts", form(...Array(20_000).fill(['name="a"', "x"]), [MODEL, "last"]), "last"],
    ["of a form without quotes", form(["name=model", "plain"]), "plain"],
    ["of a form, once", form([MODEL, "one"], [MODEL, "two"]), "one"],
    ["of a form, empty", form([MODEL, ""]), undefined],
    ["of a form, with control characters", form([MODEL, "a\u0001b"]), "a?b"],
    ["of a form, which is text of a file", form([FILE, `x\r\n\r\n${MODEL}\r\n\r\nno`]), undefined],
    ["of a form, which is the name of a file", form(['name="file"; filename="model"', "no"]), undefined],
    ["of a form, too long to be a name", form([MODEL, "m".repeat(5_000)]), undefined],
    ["of a form that is cut", form([MODEL, "cut"]).slice(0, -8), undefined],
  ])("reads the model %s", async (_, body, expected) => {
    const headers = body.startsWith(`--${BOUNDARY}`) ? FORM_TYPE : JSON_TYPE;
    expect((await chat(body, headers)).status).toBe(200);
    expect(asked().map(({ headers }) => headers["x-metalbridge-model"])).toEqual([expected]);
    expect(asked()[0]?.headers["x-metalbridge-body"]).toBeUndefined();
    expect(asked()[0]?.body).toBe(body.slice(0, 4_096));
    expect(engine.received.map((one) => one.body)).toEqual([body]);
  });

  it("reads the model of any JSON object as a parser does", async () => {
    const entries = fc.array(fc.tuple(fc.oneof(fc.constant("model"), fc.string()), fc.jsonValue()));
    const objects = fc.tuple(fc.stringMatching(/^[a-z\\"]{1,40}$/), entries, fc.integer({ min: 0, max: 4 }));
    const property = fc.asyncProperty(objects, async ([model, others, indent]) => {
      bed.decisions.received.length = 0;
      const members = others.filter(([key]) => key !== "model");
      const body = JSON.stringify({ ...Object.fromEntries(members), a: others, model }, null, indent);
      await chat(body);
      expect(asked().map(({ headers }) => headers["x-metalbridge-model"])).toEqual([model]);
    });
    await fc.assert(property, { numRuns: 50 });
  });

  it.each([
    ['{"model":"a","stream":true}', "true"],
    ['{"stream": true ,"model":"a"}', "true"],
    ['{"model":"a","stream":false}', "false"],
    ['{"model":"a","stream":null}', "false"],
    ['{"model":"a","messages":[{"stream":true}]}', "false"],
    ['{"stream":true,"stream":false}', "false"],
    ['{"stream":"false"}', "true"],
    ['{"stream":[]}', "false"],
    ['{"stream":1}', "true"],
    ['{"stream":true', undefined],
  ])("reads from %s that it streams: %s", async (body, expected) => {
    await chat(body);
    expect(asked().map(({ headers }) => headers["x-metalbridge-stream"])).toEqual([expected]);
    for (const { headers } of engine.received) expect(headers["x-metalbridge-stream"]).toBeUndefined();
  });

  it.each([
    ["cut", '{"model": 5'],
    ["cut inside a string", '{"model":"a'],
    ["two objects", '{"model":"a"}{"model":"b"}'],
    ["closed twice", '{"model":"a"}]'],
    ["a form", "model=a"],
    ["a string", '"model"'],
    ["nested too deep", `{"model":"a","b":${"[".repeat(10_000)}${"]".repeat(10_000)}}`],
  ])("calls a body invalid that is %s", async (_, body) => {
    await chat(body);
    expect(asked().map(({ headers }) => headers["x-metalbridge-body"])).toEqual(["invalid"]);
    expect(asked()[0]?.headers["x-metalbridge-model"]).toBeUndefined();
  });

  it("knows the length of a body that did not announce it", async () => {
    await chat({ model: "a" }, { ...JSON_TYPE, "transfer-encoding": "chunked" });
    await chat({ model: "a" }, { ...JSON_TYPE, "x-metalbridge-body-bytes": "1" });
    expect(asked().map(({ headers }) => headers["x-metalbridge-body-bytes"])).toEqual(["13", "13"]);
    for (const { headers } of engine.received) expect(headers["x-metalbridge-body-bytes"]).toBeUndefined();
  });

  it("passes on no header that an engine could take for one of ours, and logs the start of a path", async () => {
    bed.decisions.respond = () => grant("default/a", { "x-metalbridge-ticket": "long" });
    await chat({ model: "a" }, { ...JSON_TYPE, x_metalbridge_host: "forged" }, `/v1/${"a".repeat(9_000)}`);
    for (const { headers } of [...asked(), ...engine.received])
      expect(headers.x_metalbridge_host).toBeUndefined();
    expect((await bed.finished("long")).path).toHaveLength(512);
  });

  it("reads the model with any content type or none, and never from a service's own path", async () => {
    await chat({ model: "charset" }, { "content-type": "application/json; charset=UTF-8" });
    await chat({ model: "form" }, { "content-type": "application/x-www-form-urlencoded" });
    await chat({ model: "untyped" }, {});
    await chat({ model: "unread" }, JSON_TYPE, "/s/default/a/v1/chat/completions?x=1");
    expect(asked().map(({ headers, path }) => [path, headers["x-metalbridge-model"]])).toEqual([
      ["/decide/v1/chat/completions", "charset"],
      ["/decide/v1/chat/completions", "form"],
      ["/decide/v1/chat/completions", "untyped"],
      ["/decide/s/default/a/v1/chat/completions?x=1", undefined],
    ]);
    expect(engine.received.filter(({ path }) => path === "/v1/chat/completions?x=1")).toHaveLength(1);
  });

  it.each([
    [
      "after megabytes",
      `{"data":[${"0,".repeat(MIB)}0],"usage":{"prompt_tokens":9}}`,
      { in: 9, out: 0, cached: 0 },
    ],
    [
      "before megabytes",
      `{"usage":{"prompt_tokens":9},"data":[${"[1],".repeat(MIB / 4)}0]}`,
      { in: 9, out: 0, cached: 0 },
    ],
    [
      "beside text that looks like it",
      String.raw`{"a":"\"usage\":{\"prompt_tokens\":1}","b":{"usage":{"prompt_tokens":2}},"usage":{"prompt_tokens": 3e0 ,"completion_tokens":"x"}}`,
      { in: 3, out: 0, cached: 0 },
    ],
    ["of Ollama", '{"response":"x","prompt_eval_count":4,"eval_count":5}', { in: 4, out: 5, cached: 0 }],
    ["of no JSON", '{"usage":', undefined],
  ])("passes an answer on unchanged, and counts its tokens %s", async (title, body, tokens) => {
    bed.decisions.respond = () => grant("default/a", { "x-metalbridge-ticket": title });
    engine.respond = () => ({ headers: JSON_TYPE, body });
    expect((await chat({ model: "a" })).text).toBe(body);
    expect((await bed.finished(title)).tokens).toEqual(tokens);
  });

  it.each(["1e12", "1e308", "1e999", "-5", "-1e999", "1.5", '"nan"', "0.1", "9007199254740993"])(
    "logs a request whose engine reports %s tokens, without tokens",
    async (number) => {
      for (const usage of [
        `"usage":{"prompt_tokens":${number},"completion_tokens":2}`,
        `"usage":{"prompt_tokens":2,"completion_tokens":${number}}`,
        `"usage":{"input_tokens":2,"cache_read_input_tokens":${number}}`,
        `"usage":{"prompt_tokens":2,"prompt_tokens_details":{"cached_tokens":${number}}}`,
        `"timings":{"prompt_n":2,"predicted_n":3,"cache_n":${number}}`,
      ]) {
        bed.decisions.respond = () => grant("default/a", { "x-metalbridge-ticket": usage });
        engine.respond = () => ({ headers: JSON_TYPE, body: `{${usage}}` });
        await chat({ model: "a" });
        expect((await bed.finished(usage)).tokens, usage).toBeUndefined();
      }
    },
  );

  const zeros = (count: number) => `{"model":"a","data":[${"0,".repeat(count)}0]}`;
  it.runIf(process.platform === "linux").each([
    ["a request", zeros(1.9 * MIB), JSON_TYPE, "{}"],
    ["an answer", "{}", JSON_TYPE, zeros(8 * MIB)],
    ["an event", "{}", { "content-type": "text/event-stream" }, `data: ${zeros(1.9 * MIB)}\n\n`],
  ])("builds no tree of %s", async (_, body, headers, respond) => {
    const peakBytes = () =>
      1024 * Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${bed.pid()}/status`, "utf8"))?.[1]);
    engine.respond = () => ({ headers, body: respond });
    // Forgets the earlier peak.
    writeFileSync(`/proc/${bed.pid()}/clear_refs`, "5");
    const before = peakBytes();
    expect((await chat(body)).status).toBe(200);
    expect(peakBytes() - before).toBeLessThan(32 * MIB);
  });
});
