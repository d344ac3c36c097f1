/** `metalbridge console` as a program, on the real API server. */
import { expect, test } from "vitest";
import { CONSOLE_HEADER } from "../src/console/protocol.ts";
import { until } from "../test/bed/until.ts";
import { startProgram } from "../test/cli/program.ts";
import { sharedCluster } from "../test/cluster/cluster.ts";

const ADDRESS = /http:\/\/127\.0\.0\.1:\d+\/console\/#code=[\w-]{32}/;

test("the printed address signs in once, with the rights of the kubeconfig; the next one is then printed", async () => {
  const { kubeconfig } = sharedCluster();
  await using program = startProgram(["console", "--no-open", "--console-read-only"], { kubeconfig });
  const printed = (output: () => string) =>
    until(() => new URL(ADDRESS.exec(output())?.[0] ?? ""), { ended: program.ended });
  const { origin, hash } = await printed(program.stdout);
  const signIn = (code: string) =>
    fetch(`${origin}/console/session`, {
      method: "POST",
      headers: { [CONSOLE_HEADER]: "1" },
      body: JSON.stringify({ code: code.replace("#code=", "") }),
    });
  const answer = await signIn(hash);
  expect(await answer.json()).toMatchObject({ isReadOnly: true, hasGateway: false });
  const cookie = answer.headers.getSetCookie()[0]?.split(";")[0] ?? "";
  const list = await fetch(`${origin}/console/k8s/api/v1/namespaces`, {
    headers: { [CONSOLE_HEADER]: "1", cookie },
  });
  expect(await list.json()).toMatchObject({ kind: "NamespaceList" });
  expect(await (await signIn(hash)).json()).toMatchObject({ code: "ConsoleSignInRefused" });
  const next = await printed(program.stderr);
  expect((await signIn(next.hash)).status).toBe(200);
  program.child.kill("SIGINT");
  expect(await program.ended).toMatchObject({ code: 130 });
});
