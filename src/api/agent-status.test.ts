import { expect, test } from "vitest";
import { parseAgentStatus, renderAgentStatus } from "./agent-status.ts";

test("an answer comes back as it was written, and its first line is the pid", () => {
  const status = { pid: 12, version: "0.2.0", phase: "serving", troubles: ["ApiUnreachable"] } as const;
  const text = renderAgentStatus({ ...status, troubles: [...status.troubles] });
  expect(text.split("\n")[0]).toBe("12");
  expect(parseAgentStatus(text)).toEqual(status);
});

test.each(["12\n", "12\n{", '12\n{"pid":"x"}', "", "HTTP/1.1 400\n"])("%j is no answer", (text) => {
  expect(parseAgentStatus(text)).toBeUndefined();
});
