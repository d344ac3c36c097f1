/** `metalbridge console` as a program, on the real API server. */
import path from "node:path";
import { createParser } from "eventsource-parser";
import { expect, test } from "vitest";
import { CONSOLE_HEADER, type RowsEvent } from "../src/console/protocol.ts";
import { writeAccountKubeconfig } from "../test/bed/identity.ts";
import { until } from "../test/bed/until.ts";
import { openDesk } from "../test/cli/objects.ts";
import { type Program, startProgram } from "../test/cli/program.ts";
import { sharedCluster } from "../test/cluster/cluster.ts";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";

const ADDRESS = /http:\/\/127\.0\.0\.1:\d+\/console\/#code=[\w-]{32}/;

test("the printed address signs in once, with the rights of the kubeconfig; the next one is then printed", async () => {
  const { kubeconfig } = sharedCluster();
  await using program = startProgram(["console", "--no-open", "--console-read-only"], { kubeconfig });
  const first = await printed(program, program.stdout);
  const { origin } = first;
  const answer = await signIn(first);
  expect(await answer.json()).toMatchObject({ isReadOnly: true, hasGateway: false });
  const cookie = cookieOf(answer);
  const list = await fetch(`${origin}/console/k8s/api/v1/namespaces`, {
    headers: { [CONSOLE_HEADER]: "1", cookie },
  });
  expect(await list.json()).toMatchObject({ kind: "NamespaceList" });
  expect(await (await signIn(first)).json()).toMatchObject({ code: "ConsoleSignInRefused" });
  const next = await printed(program, program.stderr);
  expect((await signIn(next)).status).toBe(200);
  program.child.kill("SIGINT");
  expect(await program.ended).toMatchObject({ code: 130 });
});

test("a reader of one namespace sees it, and which rights the rest needs", async () => {
  await using desk = await openDesk();
  await using folder = await temporaryFolder();
  const { namespace, cluster } = desk;
  const reader = { name: "reader", namespace };
  const rbac = { apiVersion: "rbac.authorization.k8s.io/v1", metadata: reader };
  const resources = ["inferenceservices", "models"];
  await cluster.objects.apply(
    { apiVersion: "v1", kind: "ServiceAccount", metadata: reader },
    {
      ...rbac,
      kind: "Role",
      rules: [{ apiGroups: ["metalbridge.dev"], resources, verbs: ["get", "list", "watch"] }],
    },
    {
      ...rbac,
      kind: "RoleBinding",
      subjects: [{ kind: "ServiceAccount", ...reader }],
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "reader" },
    },
  );
  await desk.host();
  await desk.service("chat");
  const kubeconfig = path.join(folder.path, "reader");
  await writeAccountKubeconfig(cluster, { ...reader, file: kubeconfig });
  await using program = startProgram(["console", "--no-open", "-n", namespace], { kubeconfig });
  const address = await printed(program, program.stdout);
  const answer = await signIn(address);
  expect(await answer.json()).toMatchObject({ namespace, isLocal: true });
  const topics = ["services", "models", "hosts", `service/${namespace}/chat`, "service/default/other"];
  const stream = await fetch(`${address.origin}/console/stream?topics=${topics.join(",")}`, {
    headers: { [CONSOLE_HEADER]: "1", cookie: cookieOf(answer) },
  });
  const seen = new Map<string, unknown>();
  const parser = createParser({
    onEvent: ({ event, data }) => {
      const { topic, set = [], message } = JSON.parse(data) as RowsEvent & { readonly message?: string };
      // Rows follow an empty list as soon as they are read.
      if (event === "rows" && (set.length > 0 || !seen.has(topic)))
        seen.set(
          topic,
          set.map(([key]) => key),
        );
      if (event === "refused") seen.set(topic, message);
    },
  });
  void (async () => {
    for await (const chunk of stream.body ?? []) parser.feed(new TextDecoder().decode(chunk));
  })().catch(() => {});
  await until(() =>
    expect(Object.fromEntries(seen)).toEqual({
      services: [`${namespace}/chat`],
      models: [],
      hosts: "You may not list hosts.",
      [`service/${namespace}/chat`]: ["service"],
      "service/default/other": "You may not get inferenceservices in namespace default.",
    }),
  );
});

function printed(program: Program, output: () => string): Promise<URL> {
  return until(() => new URL(ADDRESS.exec(output())?.[0] ?? ""), { ended: program.ended });
}

function signIn({ origin, hash }: URL): Promise<Response> {
  return fetch(`${origin}/console/session`, {
    method: "POST",
    headers: { [CONSOLE_HEADER]: "1" },
    body: JSON.stringify({ code: hash.replace("#code=", "") }),
  });
}

function cookieOf(answer: Response): string {
  return answer.headers.getSetCookie()[0]?.split(";")[0] ?? "";
}
