/**
 * What one switch of the chart brings: the DaemonSet with its token, Open WebUI with its key, LeaderWorkerSet with its certificate.
 * CPU: Helm renders the chart a dozen times.
 */
import { X509Certificate } from "node:crypto";
import { expect, test } from "vitest";
import { hashKey, isKeyText, readKeySecret } from "../../src/gateway/key-secret.ts";
import { helmIn, helmProgram, needsHelm, render } from "./helm.ts";

const withHelm = test.skipIf(helmProgram === undefined);
const helm = helmIn("/nonexistent");

const NODE_PARTS = [
  "ClusterRole",
  "ClusterRoleBinding",
  "DaemonSet",
  "Role",
  "RoleBinding",
  "ServiceAccount",
];

withHelm.each<[set: string, hasNode: boolean, secret: boolean]>([
  ["server.enabled=true", true, true],
  ["server.enabled=true,node.llmfit.tokenSecret=mine", true, false],
  ["server.enabled=true,node.llmfit.enabled=false", true, false],
  ["server.enabled=true,node.enabled=false", false, false],
  ["node.enabled=true", true, true],
  ["node.enabled=true,node.llmfit=null", true, true],
  ["server.enabled=false", false, false],
])(`%s: a DaemonSet %s, a generated token %s${needsHelm}`, async (set, hasNode, hasSecret) => {
  const objects = await render(helm, "--set", set);
  const ours = objects.filter(({ metadata }) => metadata.name.startsWith("metalbridge-node"));
  expect(
    ours
      .map(({ kind }) => kind)
      .filter((kind) => NODE_PARTS.includes(kind))
      .sort(),
  ).toEqual(hasNode ? NODE_PARTS : []);
  const tokens = ours.filter(({ kind }) => kind === "Secret").map(dataOf);
  expect(tokens).toEqual(hasSecret ? [{ token: expect.stringMatching(/^[A-Za-z0-9]{43}$/) }] : []);
  expect(JSON.stringify(ours).includes('"--llmfit-port=8787"')).toBe(
    hasNode && !set.includes("enabled=false"),
  );
});

/** The decoded data of a Secret. */
function dataOf(secret: object): Readonly<Record<string, string>> {
  const { data } = secret as { readonly data: Readonly<Record<string, string>> };
  const decoded = Object.entries(data).map(([key, value]) => [key, Buffer.from(value, "base64").toString()]);
  return Object.fromEntries(decoded);
}

withHelm(`Open WebUI comes with a key that the gateway accepts${needsHelm}`, async () => {
  const values =
    "gateway.enabled=true,openWebUI.enabled=true,openWebUI.namespaces={a,b},gateway.keysNamespace=keys";
  const objects = await render(helm, "--set", `${values},gateway.from[0].podSelector.matchLabels.app=x`);
  const secrets = objects.filter(({ kind }) => kind === "Secret");
  const [own, key] = ["metalbridge-open-webui", "open-webui"].map((name) =>
    secrets.find(({ metadata }) => metadata.name === name),
  );
  const { apiKey = "", secret = "" } = dataOf(own ?? {});
  const read = readKeySecret(key as Parameters<typeof readKeySecret>[0]);
  expect(isKeyText(apiKey)).toBe(true);
  expect(secret.length).toBeGreaterThanOrEqual(32);
  expect(key?.metadata).toMatchObject({
    namespace: "keys",
    labels: { "metalbridge.dev/gateway-key": "true" },
  });
  const hashes = [{ sha256: hashKey(apiKey), hint: apiKey.slice(0, 8), createdAt: expect.any(String) }];
  expect(read).toMatchObject({ at: "valid", key: { hashes, scope: { namespaces: ["a", "b"] } } });
  const text = JSON.stringify(objects);
  expect(text).toContain('"http://metalbridge-gateway.metalbridge-system.svc:4000/v1"');
  expect(text).toContain("--user-jwt-secret-file=/etc/metalbridge/user-jwt/secret");
  expect(text).toContain('"app.kubernetes.io/component":"open-webui"}}}]');
  expect(await passwordsOf("openWebUI.secretName=mine")).toEqual([]);
  expect(await passwordsOf("openWebUI.secretName=mine", "gateway.userJwtSecretName=other")).toEqual([]);
});

async function passwordsOf(...values: string[]): Promise<readonly string[]> {
  const set = ["gateway.enabled=true", "openWebUI.enabled=true", ...values].join(",");
  const objects = await render(helm, "--set", set);
  return objects.filter(({ kind }) => kind === "Secret").map(({ metadata }) => metadata.name);
}

/** `controller/pods/groups/groups.system.test.ts` runs the controller itself with these objects. */
withHelm(`LeaderWorkerSet comes complete, with a certificate for its webhooks${needsHelm}`, async () => {
  const objects = await render(helm, "--set", "leaderWorkerSet.enabled=true");
  const ours = objects.filter(({ metadata }) => /^metalbridge-lws$|x-k8s\.io$/.test(metadata.name));
  expect(ours.map(({ kind }) => kind).sort()).toEqual([
    ...["ClusterRole", "ClusterRoleBinding", "ConfigMap", "CustomResourceDefinition"],
    ...["CustomResourceDefinition", "Deployment", "MutatingWebhookConfiguration", "NetworkPolicy"],
    ...["Secret", "Service", "ServiceAccount", "ValidatingWebhookConfiguration"],
  ]);
  const pair = dataOf(ours.find(({ kind }) => kind === "Secret") ?? {});
  const certificate = new X509Certificate(pair["tls.crt"] ?? "");
  expect(certificate.checkHost("metalbridge-lws.metalbridge-system.svc")).toBeDefined();
  expect(certificate.verify(new X509Certificate(pair["ca.crt"] ?? "").publicKey)).toBe(true);
  const caBundle = Buffer.from(pair["ca.crt"] ?? "").toString("base64");
  expect(JSON.stringify(ours).split(`"caBundle":"${caBundle}"`)).toHaveLength(5);
});
