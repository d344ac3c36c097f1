/** Command lines that cannot be meant are refused before any cluster is asked. */
import { expect, test } from "vitest";
import { runVerb } from "../../test/cli/program.ts";

test.each([
  [["rollout", "status", "chat", "--timeout", "soon"]],
  [["rollout", "status", "chat", "--watch=maybe"]],
  [["rollout", "undo", "chat", "--to-revision", "-1"]],
  [["rollout", "history", "chat", "--revision", "0"]],
  [["rollout", "again", "chat"]],
  [["drain", "mini-1", "--timeout", "1.5m"]],
  [["drain"]],
  [["cordon", "mini-1/.."]],
  [["host", "lost", "Mini"]],
  [["describe", "pod/chat"]],
  [["describe", "chat", "-o", "xml"]],
  [["upgrade", "--all"]],
  [["upgrade", "--all", "--hosts", "mini-1", "--archive", "release.tar.gz"]],
  [["upgrade", "--drain"]],
  // An empty variable of a script: nothing would be upgraded, with success.
  [["upgrade", "--hosts", "", "--archive", "release.tar.gz"]],
])("%j is refused with exit code 2", async (line) => {
  const { code, stderr } = await runVerb(line);
  expect(code).toBe(2);
  expect(stderr).toMatch(/error: .*\n.*--help/);
});
