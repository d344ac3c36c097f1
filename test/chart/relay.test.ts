/** The relay in the chart, without a cluster. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { relayConfigSchema } from "../../gateway/relay/config.ts";
import { configKeys } from "../../scripts/generate/configuration.ts";
import { CHART, type ChartObject, helmIn, helmProgram, needsHelm, render } from "./helm.ts";

const helm = helmIn("/nonexistent");
const withHelm = test.skipIf(helmProgram === undefined);
const isRelay = ({ metadata }: ChartObject) => metadata.name.startsWith("metalbridge-relay");
const flagsOf = (objects: readonly ChartObject[]) => JSON.stringify(objects.filter((one) => !isRelay(one)));

withHelm(`the relay is off, and comes with what it needs${needsHelm}`, async () => {
  const plain = await render(helm);
  expect(plain.filter(isRelay)).toEqual([]);
  expect(flagsOf(plain)).not.toMatch(/--relay-service|--transport/);
  const values = "relay.enabled=true,relay.address=::,transport=Sealed,metrics.podMonitor=true";
  const all = await render(helm, "--set", values);
  expect(flagsOf(all)).toContain('"--transport=Sealed","--relay-service=metalbridge-relay"');
  const relay = all.filter(isRelay);
  expect(relay.map(({ kind }) => kind).sort()).toEqual([
    ...["ClusterRole", "ClusterRoleBinding", "Deployment", "NetworkPolicy", "PodDisruptionBudget"],
    ...["PodMonitor", "Role", "RoleBinding", "Service", "ServiceAccount"],
  ]);
  const find = (kind: string) => relay.find((one) => one.kind === kind);
  expect(find("Deployment")).toMatchObject({
    spec: {
      replicas: 2,
      template: {
        spec: {
          terminationGracePeriodSeconds: 150,
          automountServiceAccountToken: false,
          initContainers: [{ name: "relay", args: expect.arrayContaining(["--address=::"]) }],
          containers: [{ name: "envoy", volumeMounts: [{ name: "run", mountPath: "/run/metalbridge" }] }],
        },
      },
    },
  });
  expect(find("Role")?.rules).toEqual([
    {
      apiGroups: [""],
      resources: ["secrets"],
      resourceNames: ["metalbridge-transport"],
      verbs: ["get", "list", "watch"],
    },
  ]);
  expect(find("NetworkPolicy")).toMatchObject({
    spec: {
      ingress: [
        { ports: [{ port: 20_000, endPort: 29_999 }] },
        { from: [{ namespaceSelector: {} }], ports: [{ port: "http" }] },
      ],
    },
  });
  const one = (await render(helm, "--set", "relay.enabled=true,relay.replicas=1")).filter(isRelay);
  expect(one.map(({ kind }) => kind)).not.toContain("PodDisruptionBudget");
});

withHelm(`sealed transport without a relay or a gateway is refused${needsHelm}`, async () => {
  await expect(render(helm, "--set", "transport=Sealed")).rejects.toThrow("relay.enabled or gateway.enabled");
  const viaGateway = await render(helm, "--set", "transport=Sealed,gateway.enabled=true");
  expect(flagsOf(viaGateway)).toContain('"--transport=Sealed"');
  expect(flagsOf(viaGateway)).not.toContain("--relay-service");
});

test("the relay's flags are arguments of its pod, but for those that only other places need", () => {
  const template = readFileSync(path.join(CHART, "templates/relay.yaml"), "utf8");
  const flags = configKeys(relayConfigSchema).map(({ key }) =>
    key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
  );
  expect(flags.filter((flag) => !template.includes(`--${flag}=`))).toEqual(["kubeconfig", "context"]);
});
