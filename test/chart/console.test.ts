/** The console in the chart, without a cluster. */
import { expect, test } from "vitest";
import { helmIn, helmProgram, needsHelm, render } from "./helm.ts";

const helm = helmIn("/nonexistent");
const withHelm = test.skipIf(helmProgram === undefined);

withHelm(`the console has its settings, and the gateway of the chart${needsHelm}`, async () => {
  const objectsWith = (...values: string[]) =>
    render(helm, "--set", ["server.enabled=true", ...values].join(","));
  const podOf = async (...values: string[]) => {
    const objects = await objectsWith(...values);
    return JSON.stringify(
      objects.find(({ kind, metadata }) => kind === "Deployment" && metadata.name === "metalbridge-server"),
    );
  };
  expect(await podOf()).not.toMatch(/--gateway-url|--no-console|--oidc|--session/);
  expect(await podOf("server.console.enabled=false")).toContain('"--no-console"');
  // An upgrade with --reuse-values from a version without a console.
  expect(await podOf("server.console=null", "gateway.enabled=true")).toContain(
    '"--gateway-url=http://metalbridge-gateway.metalbridge-system.svc:4000"',
  );
  const full = await podOf(
    "server.console.readOnly=true",
    "server.console.sessionSecretName=sessions",
    "server.console.oidc.issuer=https://id.example",
    "server.console.oidc.clientId=console",
    "server.console.oidc.clientSecretName=client",
    "server.console.oidc.caConfigMap=authority",
    "server.console.gatewayCaConfigMap=gateway-authority",
    "gateway.enabled=true",
    "gateway.tlsSecretName=pair",
    "gateway.kubernetesTokens=true",
  );
  for (const part of [
    '"--console-read-only"',
    '"--session-key-file=/etc/metalbridge/session/secret"',
    '"--gateway-url=https://metalbridge-gateway.metalbridge-system.svc:4000"',
    '"--gateway-ca-file=/etc/metalbridge/gateway-ca/ca.crt"',
    '"configMap":{"name":"gateway-authority"}',
    '"--gateway-kubernetes-tokens"',
    '"--oidc-issuer=https://id.example","--oidc-client-id=console"',
    '"--oidc-scopes=openid profile email offline_access"',
    '"--oidc-client-secret-file=/etc/metalbridge/oidc/secret"',
    '"--oidc-ca-file=/etc/metalbridge/oidc-ca/ca.crt"',
    '"secretName":"sessions"',
    '"secretName":"client"',
    '"configMap":{"name":"authority"}',
  ])
    expect(full).toContain(part);
  await expect(objectsWith("server.console.oidc.issuer=https://id.example")).rejects.toThrow(/clientId/);
  const restricted = await objectsWith(
    "gateway.enabled=true",
    "gateway.from[0].namespaceSelector.matchLabels.a=b",
  );
  const policy = restricted.find(
    ({ kind, metadata }) => kind === "NetworkPolicy" && metadata.name === "metalbridge-gateway",
  );
  expect(JSON.stringify(policy)).toContain('"app.kubernetes.io/component":"server"');
});
