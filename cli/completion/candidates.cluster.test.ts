/** What the shells are offered, and the scripts in a real bash. */
import { execFile } from "node:child_process";
import { symlink } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { packageRoot } from "../../local/package-root.ts";
import { until } from "../../test/bed/until.ts";
import { openDesk } from "../../test/cli/objects.ts";
import { runVerb } from "../../test/cli/program.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";

const offered = async (words: readonly string[], kubeconfig?: string) =>
  (await runVerb(["__complete", ...words], { kubeconfig })).stdout.split("\n").slice(0, -1);

test("verbs, options, choices and verbs below a verb", async () => {
  expect(await offered(["de"])).toEqual(["delete", "demo", "deploy", "describe"]);
  expect(await offered(["get", "--w"])).toEqual(["--watch"]);
  expect(await offered(["get", "services", "-o", ""])).toEqual(["json", "name", "wide"]);
  expect(await offered(["rollout", ""])).toEqual(["history", "restart", "status", "undo"]);
  expect(await offered(["nonsense", ""])).toEqual([]);
  expect(await offered(["help", "unc"])).toEqual(["uncordon"]);
  expect(await offered(["help", "rollout", "un"])).toEqual(["undo"]);
  expect(await offered(["completion", "b"])).toEqual(["bash"]);
});

test("names from the cluster, and none where it cannot be asked", async () => {
  await using desk = await openDesk();
  await desk.service("chat-a");
  await desk.service("chat-b");
  const service = ["scale", "-n", desk.namespace, "chat-"];
  // A cluster that does not answer at once is not waited for.
  await until(async () => expect(await offered(service, desk.kubeconfig)).toEqual(["chat-a", "chat-b"]));
  expect(await offered(service)).toEqual([]);
  await desk.replica("chat-c-0-abcdefgh12", await desk.host());
  for (const [words, names] of [
    ["describe isvc/chat-", ["isvc/chat-a", "isvc/chat-b"]],
    ["describe irep/", ["irep/chat-c-0-abcdefgh12"]],
    ["describe chat-", ["chat-a", "chat-b", "chat-c-0-abcdefgh12"]],
    ["scale service/chat-b", ["service/chat-b"]],
    ["get isvc chat-a", ["chat-a"]],
  ] as const) {
    const line = [...words.split(" ").slice(0, -1), "-n", desk.namespace, words.split(" ").at(-1) ?? ""];
    await until(async () => expect(await offered(line, desk.kubeconfig)).toEqual(names));
  }
});

test("bash completes with its script", async () => {
  const script = `
    source <("$1/cli/metalbridge.mjs" completion bash)
    COMP_WORDS=("$1/cli/metalbridge.mjs" unc); COMP_CWORD=1
    _metalbridge; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout } = await promisify(execFile)("bash", ["-c", script, "bash", packageRoot()]);
  expect(stdout).toBe("uncordon\n");
});

test("kubectl runs it as a plugin, and completes its words", async () => {
  await using desk = await openDesk();
  await using folder = await temporaryFolder();
  await desk.service("chat");
  for (const [name, file] of [
    ["kubectl-metalbridge", "metalbridge.mjs"],
    ["kubectl_complete-metalbridge", "kubectl_complete-metalbridge"],
  ] as const)
    await symlink(path.join(packageRoot(), "cli", file), path.join(folder.path, name));
  const env = { PATH: `${folder.path}:${process.env.PATH}` };
  const get = ["metalbridge", "get", "services", "-n", desk.namespace, "-o", "name"];
  expect(await desk.cluster.kubectl(get, { env })).toBe("inferenceservices.metalbridge.dev/chat\n");
  expect(await desk.cluster.kubectl(["__complete", "metalbridge", "unc"], { env })).toMatch(
    /^uncordon\n:4\n/,
  );
});
