import { expect, test } from "vitest";
import { parseAgentReply, renderAgentReply } from "./agent-answer.ts";

test("an answer comes back as it was written, and its first line is the pid", () => {
  const answer = { pid: 12, version: "0.2.0", phase: "serving", troubles: ["ApiUnreachable"] } as const;
  const text = renderAgentReply({ ...answer, troubles: [...answer.troubles] });
  expect(text.split("\n")[0]).toBe("12");
  expect(parseAgentReply(text)).toEqual(answer);
});

test.each(["12\n", "12\n{", '12\n{"pid":"x"}', "", "HTTP/1.1 400\n"])("%j is no answer", (text) => {
  expect(parseAgentReply(text)).toBeUndefined();
});
