/** The webhook of a controller that starts and stops: neither leaves a moment in which services are stored unjudged. */
import { once } from "node:events";
import { Agent, request } from "node:https";
import path from "node:path";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test, vi } from "vitest";
import { NAMESPACE_SYSTEM } from "../../../src/api/group.ts";
import { writeAccountKubeconfig } from "../../../test/bed/identity.ts";
import { oneCluster } from "../../../test/cluster/cluster.ts";
import { quietLog } from "../../../test/cluster/quiet-log.ts";
import { parseControllerConfig } from "../../config.ts";
import { runController } from "../../main.ts";

const WAIT = { timeout: 60_000, interval: 50 };
const ownCluster = oneCluster();

/** With the port of its webhook once it listens. */
async function start(kubeconfig: string) {
  const preflight = { preflight: "Deny", preflightAddress: "127.0.0.1", preflightPort: 0 };
  const config = parseControllerConfig({ kubeconfig, healthPort: 0, ...preflight });
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const health = Promise.withResolvers<number>();
  const webhook = Promise.withResolvers<number>();
  const running = runController({
    config,
    log: quietLog,
    signal: stop.signal,
    onListening: health.resolve,
    onOptionListening: (_, port) => webhook.resolve(port),
  });
  const url = `http://127.0.0.1:${await Promise.race([health.promise, running])}`;
  const get = async (route: string) => {
    const response = await fetch(url + route);
    return `${response.status} ${await response.text()}`;
  };
  return { get, webhook: webhook.promise, running, stop: () => stop.abort() };
}

test("a pod is not Ready before its webhook has listed what it judges by, and says what it may not list", async () => {
  const { dir, kubeconfig, objects } = ownCluster();
  const account = { kind: "ServiceAccount", name: "late", namespace: NAMESPACE_SYSTEM };
  const rbac = { apiVersion: "rbac.authorization.k8s.io/v1" };
  const grant = async (kind: "Role" | "ClusterRole", name: string, group: string, resources: string[]) => {
    const metadata = { name, namespace: kind === "Role" ? NAMESPACE_SYSTEM : undefined };
    const rules = [{ apiGroups: [group], resources, verbs: ["get", "list", "watch"] }];
    const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind, name };
    await objects.apply(
      { ...rbac, kind, metadata, rules },
      { ...rbac, kind: `${kind}Binding`, metadata, roleRef, subjects: [account] },
    );
  };
  const { kind, ...metadata } = account;
  await objects.apply({ apiVersion: "v1", kind, metadata });
  await grant("Role", "late", "", ["secrets", "configmaps"]);
  await grant("ClusterRole", "late", "metalbridge.dev", ["models", "backendruntimes", "hosts"]);
  const own = path.join(dir, "late.kubeconfig");
  await writeAccountKubeconfig({ kubeconfig }, { name: "late", namespace: NAMESPACE_SYSTEM, file: own });
  const controller = await start(own);
  const missing = /^503 the preflight webhook has not listed Nodes yet: .*cannot list resource "nodes".*\n$/;
  await vi.waitFor(async () => expect(await controller.get("/readyz/preflight")).toMatch(missing), WAIT);
  await grant("ClusterRole", "late-nodes", "", ["nodes"]);
  await vi.waitFor(async () => expect(await controller.get("/readyz/preflight")).toBe("200 ok\n"), WAIT);
});

test("a controller that stops answers for as long as API servers may still be sent to it", async () => {
  const controller = await start(ownCluster().kubeconfig);
  const port = await controller.webhook;
  await vi.waitFor(async () => expect(await controller.get("/readyz")).toBe("200 ok\n"), WAIT);
  const agent = new Agent({ keepAlive: true, rejectUnauthorized: false });
  onTestFinished(() => agent.destroy());
  const before = await review(port, agent);
  expect(before.answer).toMatchObject({ response: { uid: "u-1", allowed: true } });
  // Go's client closes an idle connection after 90 s. It has to be the first to do so.
  expect(Number(/timeout=(\d+)/.exec(before.headers["keep-alive"] ?? "")?.[1])).toBeGreaterThan(90);

  controller.stop();
  const kept = await review(port, agent);
  expect(kept.answer).toMatchObject({ response: { uid: "u-1" } });
  expect(kept.headers.connection).toBe("close");
  const opened = await review(port, new Agent({ rejectUnauthorized: false }));
  expect(opened.answer).toMatchObject({ response: { uid: "u-1" } });

  await controller.running;
  await expect(review(port, agent)).rejects.toMatchObject({ code: "ECONNREFUSED" });
});

async function review(port: number, agent: Agent) {
  const asked = request({ port, host: "127.0.0.1", path: "/preflight", method: "POST", agent });
  const service = { metadata: { name: "chat" }, spec: { modelRef: "absent" } };
  asked.end(
    JSON.stringify({
      apiVersion: "admission.k8s.io/v1",
      kind: "AdmissionReview",
      request: {
        uid: "u-1",
        kind: { kind: "InferenceService" },
        operation: "CREATE",
        namespace: "team",
        object: service,
      },
    }),
  );
  const [response] = await once(asked, "response");
  return { headers: response.headers, answer: JSON.parse(await text(response)) };
}
