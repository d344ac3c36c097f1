import { expect, test } from "vitest";
import { chatBody, DEFAULT_PARAMETERS, isInvalid, snippet } from "./request.ts";

const image = `data:image/png;base64,${"A".repeat(500)}`;
const turns = [
  { role: "user", id: 1, text: 'It\'s "quoted" $x `y` \\ and\nmore', images: [image] },
  { role: "assistant", text: "" },
] as const;

const parameters = {
  ...DEFAULT_PARAMETERS,
  system: "Be brief.",
  temperature: "0.2",
  maxTokens: "16",
  isJson: true,
};
const body = chatBody("team/chat", turns, parameters);
const request = { gatewayUrl: "http://models.example:4000/", path: "/v1/chat/completions", body } as const;

test("a request has the parameters that are set, and no answers without text", () => {
  expect(body).toEqual({
    model: "team/chat",
    messages: [
      { role: "system", content: "Be brief." },
      {
        role: "user",
        content: [
          { type: "image_url", image_url: { url: image } },
          { type: "text", text: turns[0].text },
        ],
      },
    ],
    temperature: 0.2,
    max_tokens: 16,
    response_format: { type: "json_object" },
  });
});

test("a number out of its limits is not sent", () => {
  expect(["3", "x", "-1"].map((text) => isInvalid("temperature", text))).toEqual([true, true, true]);
  expect(isInvalid("maxTokens", "1.5")).toBe(true);
  expect(isInvalid("seed", "")).toBe(false);
  expect(chatBody("m", [], { ...DEFAULT_PARAMETERS, topP: "2" }).top_p).toBeUndefined();
});

test("the body of the curl line is quoted for a shell, with the image shortened", () => {
  const line = snippet("curl", request);
  expect(line).toContain("curl http://models.example:4000/v1/chat/completions");
  const quoted = line.slice(line.indexOf("-d '") + 4, -1);
  const json = JSON.parse(quoted.replaceAll("'\\''", "'"));
  expect(quoted.replaceAll("'\\''", "")).not.toContain("'");
  expect(json.messages[1].content[1].text).toBe(turns[0].text);
  expect(json.messages[1].content[0].image_url.url).toBe("data:image/png;base64,BASE64_OF_THE_IMAGE");
});

test("Python names the base URL, and streams", () => {
  const python = snippet("python", request);
  expect(python).toContain('base_url="http://models.example:4000/v1"');
  expect(python).toContain("stream=True");
  expect(python).toContain('"type": "json_object",');
  const rerank = {
    ...request,
    path: "/v1/rerank",
    body: { model: "r", query: "q", documents: ["a"] },
  } as const;
  expect(snippet("python", rerank)).toContain('client.post("/rerank", ');
});
