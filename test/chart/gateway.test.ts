/** The gateway in the chart, without a cluster. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { gatewayConfigSchema } from "../../gateway/config.ts";
import { configKeys } from "../../scripts/generate/configuration.ts";
import { CHART, type ChartObject, helmIn, helmProgram, needsHelm, render } from "./helm.ts";

const helm = helmIn("/nonexistent");
const withHelm = test.skipIf(helmProgram === undefined);

withHelm(`the gateway is off, and comes with what it needs${needsHelm}`, async () => {
  const isOurs = ({ metadata }: ChartObject) => metadata.name.startsWith("metalbridge-gateway");
  expect((await render(helm)).filter(isOurs)).toEqual([]);
  const rendered = async (...values: string[]) =>
    (await render(helm, "--set", ["gateway.enabled=true", ...values].join(","))).filter(isOurs);
  const kindsOf = (objects: readonly ChartObject[]) => objects.map(({ kind }) => kind).sort();
  const plain = await rendered();
  expect(kindsOf(plain)).toEqual([
    ...["ClusterRole", "ClusterRoleBinding", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Role"],
    ...["Role", "RoleBinding", "RoleBinding", "Service", "ServiceAccount", "ValidatingAdmissionPolicy"],
    "ValidatingAdmissionPolicyBinding",
  ]);
  const deployment = plain.find(({ kind }) => kind === "Deployment");
  const shared = { mountPath: "/run/metalbridge", name: "run" };
  const token = { mountPath: "/var/run/secrets/kubernetes.io/serviceaccount", name: "token", readOnly: true };
  expect(deployment).toMatchObject({
    spec: {
      replicas: 2,
      template: {
        spec: {
          terminationGracePeriodSeconds: 140,
          automountServiceAccountToken: false,
          initContainers: [{ name: "gateway", restartPolicy: "Always", volumeMounts: [shared, token] }],
          containers: [{ name: "envoy", image: "envoyproxy/envoy:v1.40.0", volumeMounts: [shared] }],
        },
      },
    },
  });
  expect(JSON.stringify(deployment)).not.toMatch(/tls|upstream|cors|counters|user-jwt|kubernetes-tokens/);
  const secretsRoles = (objects: readonly ChartObject[]) =>
    objects.flatMap(({ kind, metadata, rules }) =>
      JSON.stringify(rules ?? "").includes('"secrets"') ? [`${kind} ${metadata.namespace}`] : [],
    );
  expect(secretsRoles(plain)).toEqual(["Role metalbridge-system"]);
  const apart = await rendered("gateway.keysNamespace=metalbridge-gateway-keys");
  expect(secretsRoles(apart).sort()).toEqual(["Role metalbridge-gateway-keys", "Role metalbridge-system"]);
  expect(JSON.stringify(apart)).toContain('"resourceNames":["metalbridge-transport"]');
  expect(kindsOf(apart)).toEqual([...kindsOf(plain), "Namespace"].sort());
  expect(JSON.stringify(apart)).toContain('"--keys-namespace=metalbridge-gateway-keys"');

  const all = await rendered(
    ...[
      "autoscaling.enabled=true",
      "tlsSecretName=pair",
      "upstream.caSecretName=hosts",
      "upstream.tlsSecretName=client",
      "corsOrigins={https://a.example}",
      "counters=redis://r:6379",
    ].map((value) => `gateway.${value}`),
    ...[
      "gateway.userJwtSecretName=webui",
      "gateway.kubernetesTokens=true",
      "gateway.userLimits.requestsPerMinute=60",
      "gateway.userLimits.tokensPerDay=1000000",
      "metrics.serviceMonitor=true",
    ],
  );
  expect(kindsOf(all)).toEqual(
    [...kindsOf(plain), "HorizontalPodAutoscaler", "Service", "ServiceMonitor"].sort(),
  );
  const text = JSON.stringify(all.find(({ kind }) => kind === "Deployment"));
  for (const part of [
    '"--tls-cert=/etc/metalbridge/tls/tls.crt","--tls-key=/etc/metalbridge/tls/tls.key","--upstream-ca=/etc/metalbridge/upstream-ca/ca.crt"',
    '"--upstream-cert=/etc/metalbridge/upstream-tls/tls.crt","--upstream-key=/etc/metalbridge/upstream-tls/tls.key","--kubernetes-tokens","--user-limits=requestsPerMinute=60,tokensPerDay=1000000"',
    '"secretName":"hosts"',
    '"secretName":"client"',
    '"--cors-origins=https://a.example","--max-body-bytes=33554432","--counters=redis://r:6379"',
    '"--user-jwt-secret-file=/etc/metalbridge/user-jwt/secret"',
  ])
    expect(text).toContain(part);
  expect(text).not.toContain('"replicas"');

  const secret = JSON.stringify(await rendered("gateway.countersSecretName=redis"));
  expect(secret).toContain('"--counters-file=/etc/metalbridge/counters/url"');
  expect(secret).toContain('"secretName":"redis"');
});

test("the gateway's flags are arguments of its pod, but for those that only other places need", () => {
  const template = readFileSync(path.join(CHART, "templates/gateway.yaml"), "utf8");
  const flags = configKeys(gatewayConfigSchema).map(({ key }) =>
    key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
  );
  const missing = flags.filter(
    (flag) => !template.includes(`--${flag.replace("cors-origins", "cors-origin")}`),
  );
  expect(missing).toEqual(["kubeconfig", "context"]);
});

withHelm(
  `the Gateway of Envoy AI Gateway is an argument of the controller, and no gateway of ours${needsHelm}`,
  async () => {
    const text = JSON.stringify(
      await render(helm, "--set", "gateway.mode=EnvoyAIGateway,gateway.ref=infra/ai"),
    );
    expect(text).toContain('"--gateway-mode=EnvoyAIGateway","--gateway-ref=infra/ai"');
    expect(text).not.toContain('"name":"metalbridge-gateway"');
    expect(JSON.stringify(await render(helm))).not.toContain(`"--gateway-mode`);
  },
);
