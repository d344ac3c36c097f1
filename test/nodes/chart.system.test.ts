/** The whole chart in pods of a real node: what it installs, what it may, what it costs, and what is left of it. */
import { readFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeUnless } from "../bed/describe-unless.ts";
import { KubectlFailed } from "../bed/kubectl.ts";
import { containerMemory } from "../bed/node/cgroups.ts";
import { until } from "../bed/until.ts";
import { everything, newSince } from "../chart/everything.ts";
import { CHART, NAMESPACE } from "../chart/helm.ts";
import { root } from "../docs/pages.ts";
import { type ChartBed, CONFINED, confinementOf, enforce, startChartBed, whyNoChart } from "./chart-bed.ts";

const OURS = "app.kubernetes.io/name=metalbridge";
const SERVED = "metalbridge.dev/service=chat";
const MAX_RSS = { controller: 60, node: 60, server: 90 };

describeUnless(whyNoChart, "the chart on a real node", () => {
  let bed: ChartBed;
  let before: ReadonlySet<string>;
  beforeAll(async () => {
    bed = await startChartBed();
    before = await everything(bed.kubectl);
  });
  afterAll(() => bed?.[Symbol.asyncDispose]());

  test("controllers and density server get ready where restricted pods only are allowed", async ({
    annotate,
  }) => {
    const started = performance.now();
    const notes = await bed.install("--set", "server.enabled=true,preflight.mode=Warn");
    expect(notes).toMatch(/DaemonSet metalbridge-node was left out: .* Pod Security level restricted/);
    await annotate(`ready ${Math.round(performance.now() - started)} ms after helm install`);
    const pods = await bed.pods(NAMESPACE, OURS);
    expect(pods.map(partOf).sort()).toEqual(["controller", "controller", "server"]);
  });

  test("the DaemonSet for nodes needs a privileged namespace, and then publishes what this node has", async () => {
    const { kubectl, helm } = bed;
    const { objects } = bed.cluster;
    const enabled = ["--reuse-values", "--set", "node.enabled=true"];
    const notes = await helm("upgrade", "metalbridge", CHART, "-n", NAMESPACE, ...enabled);
    expect(notes).toMatch(/WARNING: the pods of the DaemonSet metalbridge-node will be refused/);
    const refused = async () => {
      const seen = await kubectl(["describe", "daemonset", "metalbridge-node", "-n", NAMESPACE]);
      expect(seen).toMatch(/violates PodSecurity "restricted:latest"/);
    };
    await until(refused);
    await enforce(objects, NAMESPACE, "privileged");
    const rollout = ["rollout", "status", "daemonset/metalbridge-node", "-n", NAMESPACE, "--timeout=60s"];
    await kubectl(rollout);
    const report = await objects.until(NAMESPACE, "configmap/metalbridge-node-node-1", (found) =>
      JSON.parse(found.data["node.json"]),
    );
    expect(report).toMatchObject({
      memory: { totalBytes: totalmem() },
      cpu: {
        name: cpus()[0]?.model,
        cores: cpus().length,
        arch: process.arch === "arm64" ? "arm64" : "amd64",
      },
      gpus: [],
      leftOut: [],
    });
    const { status } = await objects.get("", "node/node-1");
    expect(status.capacity.memory).toBe(`${totalmem() / 1024}Ki`);
  });

  test("every container of ours runs without rights on its node", async () => {
    for (const { metadata } of await bed.pods(NAMESPACE, OURS)) {
      const containers = await bed.node.containers(NAMESPACE, metadata.name);
      expect([...containers.values()].flat().map(confinementOf), metadata.name).toEqual([CONFINED]);
    }
  });

  test("a Model and a service are made by the controller in its pod, and answer through the ClusterIP", async ({
    annotate,
  }) => {
    const started = performance.now();
    await bed.serve("chat");
    await annotate(`ready ${Math.round(performance.now() - started)} ms after kubectl apply`);
    expect(await bed.ask("chat")).toContain("choices");
  });

  test("the API server asks the webhook in the pod: a service that fits nowhere gets a warning", async () => {
    const change = JSON.stringify({ spec: { resources: { hostMemory: "900Gi" } } });
    const args = [
      "patch",
      "isvc/chat",
      "--type=merge",
      "-p",
      change,
      "--dry-run=server",
      "--warnings-as-errors",
    ];
    const failed = await bed.kubectl(args).catch((error: unknown) => error);
    expect(failed instanceof KubectlFailed && failed.stderr).toMatch(
      /Warning: .*needs 900 GiB, but the closest machine, node-1, offers/,
    );
  });

  test("the density server answers through its Service, with the node's own report", async () => {
    const { node } = bed;
    const { objects } = bed.cluster;
    const account = { name: "density", namespace: "default" };
    const rbac = "rbac.authorization.k8s.io";
    await objects.apply(
      { apiVersion: "v1", kind: "ServiceAccount", metadata: account },
      {
        apiVersion: `${rbac}/v1`,
        kind: "ClusterRoleBinding",
        metadata: { name: "density" },
        roleRef: { apiGroup: rbac, kind: "ClusterRole", name: "metalbridge-density-reader" },
        subjects: [{ kind: "ServiceAccount", ...account }],
      },
    );
    const token = await objects.token("default", "density");
    const target = `${await bed.url("metalbridge-server", NAMESPACE)}/api/v1/density/nodes`;
    const curl = ["curl", "-sS", "-m", "20", "-H", `authorization: Bearer ${token}`, target];
    await until(async () => {
      const answer: unknown = JSON.parse(await node.run(...curl));
      expect(answer).toMatchObject({
        nodes: [{ nodeName: "node-1", kind: "Node", stale: false, system: { cpu_name: cpus()[0]?.model } }],
      });
    });
    await objects.remove("default", "serviceaccount/density", "clusterrolebinding/density");
  });

  test("controllers, density server and DaemonSet stay below their memory budgets, and have not been restarted", async ({
    annotate,
  }) => {
    for (const pod of await bed.pods(NAMESPACE, OURS)) {
      const part = partOf(pod);
      const [pid = 0] = [...(await bed.node.containers(NAMESPACE, pod.metadata.name)).values()].flat();
      const { rssMegabytes: rss, workingSetMegabytes: workingSet } = containerMemory(pid);
      const seen = [rss, workingSet].map((megabytes) => megabytes.toFixed(0));
      await annotate(`${pod.metadata.name}: RSS ${seen[0]} MB, working set ${seen[1]} MB`);
      expect(rss, part).toBeLessThanOrEqual(MAX_RSS[part]);
      expect(pod.status?.containerStatuses).toMatchObject([{ restartCount: 0, ready: true }]);
    }
  });

  test("uninstalled, engines serve on, and a pod that is lost comes back", async () => {
    const { kubectl, helm } = bed;
    const [pod] = await bed.pods("default", SERVED);
    await helm("uninstall", "metalbridge", "-n", NAMESPACE, "--wait");
    const ours = async () => (await bed.pods(NAMESPACE, OURS)).map(({ metadata }) => metadata.name);
    await until(async () => expect(await ours()).toEqual([]));
    expect(await bed.ask("chat")).toContain("choices");
    expect((await bed.pods("default", SERVED)).map(uidOf)).toEqual([pod?.metadata.uid]);
    await kubectl(["delete", `pod/${pod?.metadata.name}`, "--grace-period=1"]);
    await until(async () => {
      const [next, ...more] = await bed.pods("default", SERVED);
      expect(next?.status?.containerStatuses).toMatchObject([{ ready: true }]);
      expect(more).toEqual([]);
    });
    // kube-proxy hears of it a moment later.
    await until(async () => expect(await bed.ask("chat")).toContain("choices"));
  });

  test("installed again, everything is removed by the commands of the documentation", async () => {
    const { kubectl, helm } = bed;
    await bed.install();
    for (const line of removalCommands()) {
      const [program, ...args] = line.split(" ");
      if (program === "helm") await helm(...args);
      else if (program === "kubectl") await kubectl(args);
    }
    await until(async () => expect(await newSince(kubectl, before)).toEqual([]));
  });
});

function partOf(pod: { readonly metadata: { readonly labels?: Readonly<Record<string, string>> } }) {
  return pod.metadata.labels?.["app.kubernetes.io/component"] as keyof typeof MAX_RSS;
}

function uidOf({ metadata }: { readonly metadata: { readonly uid?: string } }) {
  return metadata.uid;
}

/** The last block of commands in the section on uninstalling. */
function removalCommands(): readonly string[] {
  const page = readFileSync(path.join(root, "charts/README.md"), "utf8");
  const section = page.split("\n## ").find((one) => one.startsWith("Uninstall")) ?? "";
  return (section.split("```").at(-2) ?? "").trim().split("\n");
}
