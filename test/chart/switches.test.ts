/**
 * What one switch of the chart brings: the DaemonSet and its port, Open WebUI, LeaderWorkerSet with its certificate.
 * CPU: Helm renders the chart a dozen times.
 */
import { X509Certificate } from "node:crypto";
import { expect, test } from "vitest";
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

withHelm.each<[set: string, hasNode: boolean, isOpen: boolean]>([
  // Without a cluster nothing runs unasked; chart.cluster.test.ts has the switches with one.
  ["server.enabled=true", false, false],
  ["server.enabled=true,node.llmfit.tokenSecret=mine", false, false],
  ["server.enabled=true,node.enabled=false", false, false],
  ["node.enabled=true,serviceAccount.create=false,rbac.create=false", true, false],
  // Values of an older chart open no port.
  ["node.enabled=true", true, false],
  ["node.enabled=true,node.llmfit=null", true, false],
  ["node.enabled=true,node.llmfit.enabled=false,node.llmfit.tokenSecret=mine", true, false],
  ["node.enabled=true,node.llmfit.tokenSecret=mine", true, true],
  ["node.enabled=true,node.llmfit.enabled=true,node.llmfit.tokenSecret=mine", true, true],
])(`%s without a cluster: a DaemonSet %s, port 8787 open %s${needsHelm}`, async (set, hasNode, isOpen) => {
  const objects = await render(helm, "--set", set);
  const ours = objects.filter(({ metadata }) => metadata.name.startsWith("metalbridge-node"));
  expect(
    ours
      .map(({ kind }) => kind)
      .filter((kind) => NODE_PARTS.includes(kind))
      .sort(),
  ).toEqual(
    hasNode ? NODE_PARTS.filter((kind) => kind === "DaemonSet" || !set.includes("create=false")) : [],
  );
  expect(ours.filter(({ kind }) => kind === "Secret")).toEqual([]);
  expect(JSON.stringify(ours).includes('"--llmfit-port=8787"')).toBe(isOpen);
});

withHelm.each<[args: readonly string[], isGiven: boolean]>([
  [[], true],
  [["--set", "rbac.objectives=false"], false],
])(`the controller may write the objects of spec.slo with %j: %s${needsHelm}`, async (args, isGiven) => {
  const objects = await render(helm, ...args);
  const role = objects.find(
    ({ kind, metadata }) => kind === "ClusterRole" && metadata.name === "metalbridge-controller",
  );
  const text = JSON.stringify(role);
  expect(text.includes('"resources":["servicelevelobjectives"]')).toBe(isGiven);
  expect(text.includes('"resources":["prometheusrules"]')).toBe(isGiven);
  // The definitions say which kind is installed, also to a controller without the right.
  expect(text).toContain("prometheusrules.monitoring.coreos.com");
});

/** The decoded data of a Secret. */
function dataOf(secret: object): Readonly<Record<string, string>> {
  const { data } = secret as { readonly data: Readonly<Record<string, string>> };
  const decoded = Object.entries(data).map(([key, value]) => [key, Buffer.from(value, "base64").toString()]);
  return Object.fromEntries(decoded);
}

/** `chart.cluster.test.ts` has the Secrets that the chart makes where Helm reads the cluster. */
withHelm(
  `Open WebUI and the gateway read the Secret that is named, and restart with it${needsHelm}`,
  async () => {
    const on = "gateway.enabled=true,openWebUI.enabled=true,openWebUI.secretName=mine";
    const values = `${on},gateway.tlsSecretName=pair,openWebUI.caSecretName=authority,gateway.countersSecretName=redis`;
    const objects = await render(helm, "--set", `${values},gateway.from[0].podSelector.matchLabels.app=x`);
    const secrets = objects.filter(({ kind }) => kind === "Secret");
    expect(secrets.map(({ metadata }) => metadata.name)).toEqual(["metalbridge-transport"]);
    const text = JSON.stringify(objects);
    expect(text).toContain('"https://metalbridge-gateway.metalbridge-system.svc:4000/v1"');
    expect(text).toContain('{"name":"SSL_CERT_FILE","value":"/etc/metalbridge/ca/ca.crt"}');
    expect(text).toContain('"secret":{"secretName":"authority","items":[{"key":"ca.crt","path":"ca.crt"}]}');
    expect(text).toContain("--user-jwt-secret-file=/etc/metalbridge/user-jwt/secret");
    expect(text).toContain('"app.kubernetes.io/component":"open-webui"}}}]');
    const annotationsOf = (name: string) => {
      const found = objects.find(({ kind, metadata }) => kind === "Deployment" && metadata.name === name);
      const { spec } = found as unknown as {
        readonly spec: { readonly template: { readonly metadata: { readonly annotations: object } } };
      };
      return Object.keys(spec.template.metadata.annotations);
    };
    expect(annotationsOf("metalbridge-open-webui")).toEqual(["metalbridge.dev/secret"]);
    expect(annotationsOf("metalbridge-gateway")).toEqual([
      "metalbridge.dev/counters",
      "metalbridge.dev/user-jwt",
    ]);
    const same = JSON.stringify(await render(helm, "--set", `${on},gateway.userJwtSecretName=mine`));
    expect(same).toContain('"secretName":"mine"');
    expect(same).not.toContain("SSL_CERT_FILE");
  },
);

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
