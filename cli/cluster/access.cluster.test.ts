/** Every verb says the same of a cluster that cannot be used: with a code, and with what to do. */
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { writeAccountKubeconfig } from "../../test/bed/identity.ts";
import { openDesk } from "../../test/cli/objects.ts";
import { runVerb } from "../../test/cli/program.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";

const LINES = [
  ["host", "list"],
  ["host", "lost", "mini-1", "--yes"],
  ["cordon", "mini-1"],
  ["uncordon", "mini-1"],
  ["drain", "mini-1"],
  ["describe", "chat"],
  ["rollout", "status", "chat"],
  ["rollout", "history", "chat"],
  ["rollout", "undo", "chat"],
] as const;

test("no kubeconfig", async () => {
  const ends = await Promise.all(LINES.map((line) => runVerb(line)));
  for (const { code, stderr } of ends) {
    expect(code).toBe(1);
    expect(stderr).toMatch(/^KubeconfigMissing: [\s\S]*--kubeconfig/);
  }
});

test("a kubeconfig that is not there, and one that is none", async () => {
  await using folder = await temporaryFolder();
  const file = path.join(folder.path, "kubeconfig");
  expect(await runVerb(["host", "list", "--kubeconfig", file])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^KubeconfigUnreadable: /),
  });
  await writeFile(file, "clusters: 5");
  expect(await runVerb(["host", "list", "--kubeconfig", file])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^KubeconfigInvalid: /),
  });
});

test("an unreachable API server: no automatic retry is promised", async () => {
  await using desk = await openDesk();
  await using folder = await temporaryFolder();
  const file = path.join(folder.path, "kubeconfig");
  const text = await readFile(desk.kubeconfig, "utf8");
  await writeFile(file, text.replace(/https:\/\/[\w.:]+/, "https://127.0.0.1:9"));
  const ends = await Promise.all(LINES.map((line) => runVerb([...line, "--kubeconfig", file])));
  for (const { code, stderr } of ends) {
    expect(code).toBe(1);
    expect(stderr).toMatch(/^ApiUnreachable: cannot (get|list) [\s\S]*kubectl get --raw \/readyz\n$/);
    expect(stderr).not.toContain("automatically");
  }
});

test("a credential without rights: the right is named", async () => {
  await using desk = await openDesk();
  await using folder = await temporaryFolder();
  const file = path.join(folder.path, "kubeconfig");
  const { namespace, cluster } = desk;
  const metadata = { name: "no-rights", namespace };
  await cluster.objects.create({ apiVersion: "v1", kind: "ServiceAccount", metadata });
  await writeAccountKubeconfig(cluster, { name: "no-rights", namespace, file });
  const ends = await Promise.all(LINES.map((line) => runVerb([...line, "--kubeconfig", file])));
  for (const { code, stderr } of ends) {
    expect(code).toBe(1);
    expect(stderr).toMatch(/^ApiForbidden: cannot (get|list) /);
    expect(stderr).toMatch(/kubectl auth can-i (get|list) [a-z]+\.metalbridge\.dev/);
  }
});

test("a context that is not there, and a namespace that the context names", async () => {
  await using desk = await openDesk();
  await using folder = await temporaryFolder();
  const unknown = await runVerb(["host", "list", "--context", "nowhere"], desk);
  expect(unknown).toMatchObject({ code: 1, stderr: expect.stringMatching(/^KubeconfigInvalid: .*nowhere/) });

  const file = path.join(folder.path, "kubeconfig");
  const config = parse(await readFile(desk.kubeconfig, "utf8"));
  for (const { context } of config.contexts) context.namespace = desk.namespace;
  await writeFile(file, stringify(config));
  await desk.service("chat");
  const found = await runVerb(["describe", "chat"], { kubeconfig: file });
  expect(found).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(new RegExp(`Namespace: +${desk.namespace}`)),
  });
  const elsewhere = await runVerb(["describe", "chat", "-n", "default"], desk);
  expect(elsewhere.stderr).toMatch(new RegExp(`ServiceNotFound: .*namespace default\\n.*${desk.namespace}`));
});
