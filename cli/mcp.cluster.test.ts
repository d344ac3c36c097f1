/** `metalbridge mcp` as a child process: the SDK's client and the inspector ask about a real API server. */
import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { cpus, hostname } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ElicitRequestSchema, type ElicitResult } from "@modelcontextprotocol/sdk/types.js";
import { expect, test, vi } from "vitest";
import { createDensity } from "../fitness/density/density.ts";
import { createFitIndex } from "../fitness/density/fits.ts";
import { packageRoot } from "../local/package-root.ts";
import { INFERENCE_SERVICES } from "../src/api/kinds.ts";
import { CONFIG_MAPS } from "../src/kube/kinds.ts";
import type { KubeClient, KubeObject } from "../src/kube/types.ts";
import { writeAccountKubeconfig } from "../test/bed/identity.ts";
import { openDesk } from "../test/cli/objects.ts";
import { startProgram } from "../test/cli/program.ts";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";
import { withCluster } from "./cluster/cluster.ts";
import { fillDensity } from "./cluster/density.ts";

const PROGRAM = path.join(packageRoot(), "cli", "metalbridge.mjs");

async function connectWith(args: readonly string[], kubeconfig: string, answers: readonly ElicitResult[]) {
  const left = [...answers];
  const questions: string[] = [];
  const client = new Client({ name: "test", version: "1" }, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
    questions.push(params.message);
    return left.shift() ?? { action: "cancel" };
  });
  const env = { PATH: process.env.PATH ?? "", HOME: "/nonexistent", KUBECONFIG: kubeconfig };
  const command = process.execPath;
  await client.connect(new StdioClientTransport({ command, args: [PROGRAM, "mcp", ...args], env }));
  const call = async (name: string, input: Record<string, unknown>) => {
    const result = await client.callTool({ name, arguments: input });
    const [{ text = "" } = {}] = result.content as readonly { readonly text?: string }[];
    return { isError: result.isError === true, text };
  };
  return { call, questions, [Symbol.asyncDispose]: () => client.close() };
}

test("over standard input services are listed and explained, and deployed once the user says yes", async () => {
  await using desk = await openDesk();
  const { namespace, kubeconfig } = desk;
  const host = await desk.host();
  await desk.service("chat");
  await desk.replica("chat-0", host, { phase: "Ready" });
  const placement = { chosen: [{ replica: "chat-0", host, score: 3, reason: "most memory left" }] };
  const ready = { phase: "Ready", readyReplicas: 1, desiredReplicas: 1, placement };
  await desk.status(INFERENCE_SERVICES, "chat", ready);
  const flags = ["-n", namespace, "--allow-deploy"];
  const yes = { action: "accept", content: { confirm: true } } as const;
  await using mcp = await connectWith(flags, kubeconfig, [{ action: "decline" }, yes]);

  const listed = JSON.parse((await mcp.call("list_services", { namespace })).text);
  expect(listed).toMatchObject({
    total: 1,
    services: [{ service: `${namespace}/chat`, model: "tiny", phase: "Ready", ready: "1/1" }],
  });
  expect(listed.services[0].hosts).toEqual([host]);
  const explained = JSON.parse((await mcp.call("explain_placement", { service: "chat" })).text);
  expect(explained).toMatchObject({ chosen: placement.chosen, replicas: [{ name: "chat-0", host }] });
  expect(explained.oneMore.unknown).toMatch(/Model tiny/);
  const none = await mcp.call("explain_placement", { service: "nothing" });
  expect([none.isError, none.text]).toEqual([true, expect.stringContaining("ServiceNotFound")]);

  const request = { model: "hf://org/repo/tiny.gguf", name: "made", replicas: 2 };
  const services = async (): Promise<readonly string[]> =>
    (await desk.cluster.objects.list(INFERENCE_SERVICES, undefined, namespace)).map(
      ({ metadata }: KubeObject) => metadata.name,
    );
  expect((await mcp.call("deploy", request)).isError).toBe(true);
  expect(await services()).not.toContain("made");
  expect(JSON.parse((await mcp.call("deploy", request)).text)).toMatchObject({
    service: `${namespace}/made`,
  });
  expect(await services()).toContain("made");
  expect(mcp.questions).toEqual(Array(2).fill(expect.stringMatching(/Create this[\s\S]*replicas: 2/)));
  for (const model of ["/etc/passwd", "file:///etc/passwd", "FILE:///etc/passwd"]) {
    const local = await mcp.call("deploy", { model });
    expect([local.isError, local.text]).toEqual([true, expect.stringContaining("not a supported source")]);
  }
  expect(mcp.questions).toHaveLength(2);
});

test("machines are not judged without their reports where reading these failed", async () => {
  await using desk = await openDesk();
  await using folder = await temporaryFolder();
  const nowhere = path.join(folder.path, "kubeconfig");
  const text = await readFile(desk.kubeconfig, "utf8");
  await writeFile(nowhere, text.replace(/https:\/\/[\w.:]+/, "https://127.0.0.1:9"));
  const fill = (kubeconfig: string) =>
    withCluster("mcp", { kubeconfig }, ({ client: other, ...cluster }) => {
      const list: KubeClient["list"] = (kind, options) =>
        (kind.plural === CONFIG_MAPS.plural ? other : desk.client).list(kind, options);
      return fillDensity(createDensity(createFitIndex([])), { ...cluster, client: { ...desk.client, list } });
    });
  await expect(fill(nowhere)).rejects.toMatchObject({ code: "ApiUnreachable" });
  const account = { name: "no-reports", namespace: desk.namespace };
  await desk.cluster.objects.create({ apiVersion: "v1", kind: "ServiceAccount", metadata: account });
  const file = path.join(folder.path, "no-reports");
  await writeAccountKubeconfig(desk.cluster, { ...account, file });
  await fill(file);
});

test("without a cluster the machine that it runs on is described, and models are ranked for it", async () => {
  await using mcp = await connectWith([], "/nonexistent/kubeconfig", []);
  const { isError, text } = await mcp.call("get_system_specs", {});
  const { node, system } = JSON.parse(text);
  expect([isError, node, system.cpu_cores]).toEqual([false, hostname(), cpus().length]);
  expect(system.total_ram_gb).toBeGreaterThan(0);
  const fit = JSON.parse((await mcp.call("fit", { limit: 2 })).text);
  expect(fit).toMatchObject({ NodeName: hostname(), ModelFits: [{}, {}] });
  const elsewhere = await mcp.call("get_system_specs", { node: "mac-1" });
  expect(JSON.parse(elsewhere.text)).toEqual({ error: expect.stringContaining("kubeconfig") });
});

test("the inspector calls a tool, and a client that leaves ends the program", async () => {
  await using desk = await openDesk();
  const inspector = path.join(packageRoot(), "node_modules", ".bin", "mcp-inspector");
  const inspect = async (...args: readonly string[]) => {
    const server = [process.execPath, PROGRAM, "mcp", "--kubeconfig", desk.kubeconfig, "-n", desk.namespace];
    const line = ["--cli", ...server, ...args];
    const { stdout } = await promisify(execFile)(inspector, line, { timeout: 120_000 });
    return JSON.parse(stdout);
  };
  const { tools } = await inspect("--method", "tools/list");
  expect(tools.map(({ name }: { name: string }) => name)).toContain("explain_placement");
  const call = [
    "--method",
    "tools/call",
    "--tool-name",
    "list_services",
    "--tool-arg",
    `namespace=${desk.namespace}`,
  ];
  const { content } = await inspect(...call);
  expect(JSON.parse(content[0].text)).toEqual({ total: 0, services: [] });
  const specs = await inspect("--method", "tools/call", "--tool-name", "get_system_specs");
  expect(JSON.parse(specs.content[0].text)).toMatchObject({
    node: hostname(),
    system: { cpu_cores: cpus().length },
  });
  await using open = startProgram(["mcp", "--http", "--port", "0", "--allow-deploy"], desk);
  await vi.waitFor(() => expect(open.stderr()).toMatch(/^ServerConfigInvalid: .*\n.*token/), 60_000);
  expect(await open.ended).toMatchObject({ code: 2, stdout: "" });
  const ended = await startProgram(["mcp"], desk).ended;
  expect(ended).toMatchObject({ code: 0, stdout: "" });
});
