import { expect, test } from "vitest";
import { parseAgentReply, renderAgentReply } from "./agent-answer.ts";

test("an answer comes back as it was written, and its first line is the pid for agents that read only that", () => {
  const answer = { pid: 12, version: "0.2.0", phase: "serving", troubles: ["ApiUnreachable"] } as const;
  const text = renderAgentReply({ ...answer, troubles: [...answer.troubles] });
  expect(text.split("\n")[0]).toBe("12");
  expect(parseAgentReply(text)).toEqual(answer);
});

test.each([
  ["12\n", { pid: 12 }],
  ["12\n{", { pid: 12 }],
  ['12\n{"pid":"x"}', { pid: 12 }],
  ["", undefined],
  ["HTTP/1.1 400\n", undefined],
  ["-1\n", undefined],
])("%j is understood as %j", (text, expected) => {
  expect(parseAgentReply(text)).toEqual(expected);
});
