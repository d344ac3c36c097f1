/** `metalbridge top` in a real terminal. With a cluster: test/integration/everyday.test.ts. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, expect, test } from "vitest";
import { until } from "../test/bed/until.ts";
import { runInTerminal } from "../test/cli/in-terminal.ts";
import { startProgram } from "../test/cli/program.ts";

const folder = mkdtempSync(path.join(tmpdir(), "mb-top-"));
const kubeconfig = path.join(folder, "kubeconfig");
writeFileSync(
  kubeconfig,
  JSON.stringify({
    "current-context": "away",
    contexts: [{ name: "away", context: { cluster: "away", user: "me" } }],
    clusters: [{ name: "away", cluster: { server: "https://127.0.0.1:1" } }],
    users: [{ name: "me", user: { token: "none" } }],
  }),
);
afterAll(() => rmSync(folder, { recursive: true }));

test("says that the API server is away, and quits leaving the terminal as it was", async () => {
  using top = runInTerminal(["top"], { kubeconfig, cols: 200, withModes: true });
  await using plain = startProgram(["top"], { kubeconfig });
  await until(() => expect(top.screen()).toMatch(/^https:..127\.0\.0\.1:1 .*q quits\nApiUnreachable: /));
  top.pty.write("q");
  expect(await top.exitCode).toBe(0);
  const [before, after] = top.output().match(/[0-9a-f]+(:[0-9a-f]+){9,}/g) ?? [];
  expect(after).toBe(before);
  expect(top.screen()).toBe([before, after].join("\n"));
  expect(top.output()).toMatch(/\[\?25h[\s\S]*\[\?1049l/);
  await until(() => expect(plain.stderr()).toMatch(/^ApiUnreachable.*still trying\n$/));
  plain.child.kill("SIGINT");
  expect(await plain.ended).toMatchObject({ code: 130, stdout: "" });
});
