/**
 * The chart without a cluster: values, schema, versions, what Helm renders and refuses; and the files of the image.
 * CPU: Helm renders the chart sixty times.
 */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { controllerConfigSchema } from "../../controller/config.ts";
import { benchmarksConfigSchema } from "../../controller/options/benchmark/option.ts";
import { externalMetricsConfigSchema } from "../../controller/options/external-metrics/option.ts";
import { labelsConfigSchema } from "../../controller/options/labels/option.ts";
import { preflightConfigSchema } from "../../controller/options/preflight/option.ts";
import { transportConfigSchema } from "../../controller/options/transport/option.ts";
import { tunnelConfigSchema } from "../../controller/options/tunnel/option.ts";
import { podsConfigSchema } from "../../controller/pods/config.ts";
import { objectivesConfigSchema } from "../../controller/services/objectives/config.ts";
import { routesConfigSchema } from "../../controller/services/routes/config.ts";
import { chartValues } from "../../scripts/generate/chart.ts";
import { configKeys } from "../../scripts/generate/configuration.ts";
import { freshBundle } from "../bed/release.ts";
import { root } from "../docs/pages.ts";
import { temporaryFolder } from "../fixtures/temporary-folder.ts";
import { CHART, type ChartObject, helmIn, helmProgram, lint, needsHelm, objectsOf, render } from "./helm.ts";
import { layOut } from "./image.ts";

interface DaemonSet {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly containers: readonly [
          {
            readonly args: readonly string[];
            readonly securityContext: object;
            readonly volumeMounts: readonly { readonly mountPath: string; readonly readOnly?: boolean }[];
          },
        ];
        readonly volumes: readonly { readonly hostPath: { readonly path: string } }[];
        readonly securityContext: object;
        readonly runtimeClassName: string;
      };
    };
  };
}

interface Role {
  readonly rules: readonly { readonly resources: readonly string[]; readonly verbs: readonly string[] }[];
}

const helm = helmIn("/nonexistent");
const withHelm = test.skipIf(helmProgram === undefined);

test("the chart has the version of the program", () => {
  const chart = parse(readFileSync(path.join(CHART, "Chart.yaml"), "utf8"));
  const { version } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8"));
  expect(chart).toMatchObject({ version, appVersion: version });
});

const FOLLOWING = ["node.enabled", "node.llmfit.enabled"];

test("every value is described, and has a default unless it is the controller's or follows another value", () => {
  for (const { key, description, byDefault } of chartValues()) {
    expect(description, key).not.toBe("");
    expect(byDefault === undefined, key).toBe(key.startsWith("controller.") || FOLLOWING.includes(key));
  }
});

test("the controller's flags are values, but for those that a pod settles itself", () => {
  const settled = [
    "kubeconfig",
    "context",
    "healthAddress",
    "healthPort",
    "image",
    "hostsOnly",
    "scoreWeights",
    // The value pods.hostPaths.
    "hostPaths",
  ];
  const groups = [
    preflightConfigSchema,
    tunnelConfigSchema,
    // The values transport and relay.enabled.
    transportConfigSchema,
    labelsConfigSchema,
    benchmarksConfigSchema,
    externalMetricsConfigSchema,
    routesConfigSchema,
    objectivesConfigSchema,
  ].flatMap(({ shape }) => Object.keys(shape));
  const flags = configKeys(controllerConfigSchema)
    .map(({ key }) => key)
    .filter((key) => ![...settled, ...groups].includes(key));
  const values = chartValues().flatMap(({ key }) => /^controller\.(.+)$/.exec(key)?.[1] ?? []);
  expect(values.sort()).toEqual([...flags, "logLevel"].sort());
});

test.each<[folder: string, isAllowed: boolean]>([
  ["/srv/models", true],
  ["/.cache", true],
  ["/a/..b", true],
  ["/...", true],
  ["/", false],
  ["/.", false],
  ["/..", false],
  ["/srv/..", false],
  ["/srv/./models", false],
  ["/srv//models", false],
  ["/srv/", false],
  ["srv", false],
  ["/srv,models", false],
  [`/${"a".repeat(1_024)}`, false],
])("the values and the controller agree about the folder of nodes %s: %s", (folder, isAllowed) => {
  const schema = JSON.parse(readFileSync(path.join(CHART, "values.schema.json"), "utf8"));
  const { pattern, maxLength } = schema.properties.pods.properties.hostPaths.items;
  expect(new RegExp(pattern).test(folder) && folder.length <= maxLength).toBe(isAllowed);
  expect(podsConfigSchema.shape.hostPaths.safeParse(folder).success).toBe(isAllowed);
});

withHelm(`remote access is off, and what switches it on is the example${needsHelm}`, async () => {
  const named = ({ kind, metadata }: ChartObject) => `${kind} ${metadata.name}`;
  const off = (await render(helm)).map(named);
  const on = await render(helm, "--set", "remoteAccess.enabled=true,remoteAccess.logNamespaces={team-a}");
  const added = on.filter((object) => !off.includes(named(object)));
  const example = objectsOf(readFileSync(path.join(root, "examples/rbac/remote-access.yaml"), "utf8"));
  const bound = ["RoleBinding metalbridge-host-logs", "RoleBinding metalbridge-host-doctor"];
  const forPeople = (name: string) => bound.includes(name) || /-(team-a|operators)$/.test(name);
  expect(added.map(named).sort()).toEqual(
    example
      .map(named)
      .filter((name) => !forPeople(name))
      .sort(),
  );
  for (const object of added) {
    const same = example.find((one) => named(one) === named(object));
    const { rules, subjects, roleRef, automountServiceAccountToken } = object;
    expect(same).toMatchObject(
      JSON.parse(JSON.stringify({ rules, subjects, roleRef, automountServiceAccountToken })),
    );
    expect(same?.metadata.namespace).toBe(object.metadata.namespace);
  }
  const text = JSON.stringify(on);
  expect(text).toContain('"--tunnel"');
  expect(text).toContain('{"name":"tunnel","containerPort":9466}');
  expect(text).toContain('{"ports":[{"port":"tunnel"}]}');
});

withHelm(`helm lint finds nothing${needsHelm}`, async () => {
  await expect(lint(helm)).resolves.toMatch(/1 chart\(s\) linted, 0 chart\(s\) failed/);
});

withHelm(`a ConfigMap with more models is mounted for the density API${needsHelm}`, async () => {
  const podOf = async (...values: string[]) => {
    const objects = await render(helm, "--set", ["server.enabled=true", ...values].join(","));
    const server = objects.find(
      ({ kind, metadata }) => kind === "Deployment" && metadata.name.endsWith("server"),
    );
    return JSON.stringify(server);
  };
  const both = await podOf("server.catalogConfigMap=mine", "server.tlsSecretName=pair");
  for (const part of [
    "--catalog=/etc/metalbridge/catalog/models.jsonl",
    '"configMap":{"name":"mine"}',
    '"secretName":"pair"',
  ])
    expect(both).toContain(part);
  expect(await podOf("server.catalogConfigMap=mine")).toContain('"mountPath":"/etc/metalbridge/catalog"');
  expect(await podOf()).not.toContain("catalog");
});

withHelm(`pods on nodes answer llmfit's REST API with the token of a Secret${needsHelm}`, async () => {
  const partsOf = async (...values: string[]) => {
    const objects = await render(helm, "--set", ["node.enabled=true", ...values].join(","));
    const ours = objects.filter(({ metadata }) => metadata.name === "metalbridge-node");
    return JSON.stringify(ours.filter(({ kind }) => kind === "DaemonSet" || kind === "NetworkPolicy"));
  };
  const parts = await partsOf("node.llmfit.tokenSecret=sesame", "catalogConfigMap=mine");
  for (const part of [
    '"--llmfit-port=8787","--llmfit-address=0.0.0.0","--llmfit-token-file=/llmfit/token"',
    '"--catalog=/etc/metalbridge/catalog/models.jsonl"',
    '"configMap":{"name":"mine"}',
    '"mountPath":"/etc/metalbridge/catalog"',
    '"secret":{"secretName":"sesame"}',
    '"mountPath":"/llmfit"',
    '"ports":[{"port":"metrics"},{"port":"llmfit"}]',
  ])
    expect(parts).toContain(part);
  expect(await partsOf("node.llmfit.tokenSecret=sesame")).not.toContain("catalog");
  expect(await partsOf("node.llmfit=null")).not.toContain("llmfit");
  const closed = "node.llmfit.enabled=false";
  expect(await partsOf(closed, "catalogConfigMap=mine")).not.toMatch(/llmfit|catalog/);
  expect(await partsOf(closed, "node.metricsPort=0")).not.toMatch(/metrics|"ports"/);
});

withHelm(
  `the preflight webhook comes with what it needs, and without it there is nothing of it${needsHelm}`,
  async () => {
    const mode = "preflight.mode=Warn,preflight.failurePolicy=Fail";
    const objects = await render(helm, "--set", `${mode},catalogConfigMap=mine`);
    const ours = objects.filter(({ metadata }) => metadata.name === "metalbridge-preflight");
    expect(ours.map(({ kind }) => kind).sort()).toEqual([
      ...["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service"],
      "ValidatingWebhookConfiguration",
    ]);
    expect(ours.find(({ kind }) => kind.startsWith("Validating"))).toMatchObject({
      webhooks: [{ failurePolicy: "Fail", clientConfig: { service: { namespace: "metalbridge-system" } } }],
    });
    const deployment = JSON.stringify(objects.find(({ kind }) => kind === "Deployment"));
    expect(deployment).toContain('"--preflight=Warn"');
    expect(deployment).toContain('"readinessProbe":{"httpGet":{"path":"/readyz/preflight"');
    expect(deployment).toContain('"--catalog=/etc/metalbridge/catalog/models.jsonl"');
    const policy = objects.find(({ kind }) => kind === "NetworkPolicy");
    expect(policy).toMatchObject({ spec: { ingress: [{ from: [{}] }, { ports: [{ port: "preflight" }] }] } });
    const plain = JSON.stringify(await render(helm));
    expect(plain).not.toContain("preflight");
    expect(plain).not.toContain("pods/eviction");
    const moving = JSON.stringify(await render(helm, "--set", "controller.liveEviction=true"));
    expect(moving).toContain("pods/eviction");
    expect(moving).toContain('"--live-eviction"');
    const weighted = JSON.stringify(await render(helm, "--set", "scheduler.weights.util=0.5"));
    expect(weighted).toContain('"--score-weights=tps=0.7,utilization=0.5,cost=0.1"');
    const forbidden = JSON.stringify(await render(helm, "--set", "controller.probeNodes=false"));
    expect(forbidden).toContain('"--no-probe-nodes"');
    const mayProbe = '{"apiGroups":[""],"resources":["pods"],"verbs":["create","delete"]}';
    expect(forbidden).not.toContain(mayProbe);
    expect(plain).toContain(mayProbe);
    expect(plain).not.toContain("probe-nodes");
    const withoutRights = JSON.stringify(await render(helm, "--set", "rbac.create=false"));
    expect(withoutRights).toContain('"--no-probe-nodes"');
    const asked = await render(helm, "--set", "rbac.create=false,controller.probeNodes=true");
    expect(JSON.stringify(asked)).toContain('"--probe-nodes"');
    expect(JSON.stringify(asked)).not.toContain("no-probe-nodes");
  },
);

withHelm(`external metrics and KEDA come with what they need, each on its own${needsHelm}`, async () => {
  const objects = await render(helm, "--set", "autoscaling.externalMetrics=true");
  const ours = objects.filter(({ metadata }) => /external[-.]metrics/.test(metadata.name));
  expect(ours.map(({ kind }) => kind).sort()).toEqual([
    ...["APIService", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "RoleBinding", "Service"],
  ]);
  const text = JSON.stringify(objects);
  expect(text).toContain('"--external-metrics"');
  expect(text).toContain('{"ports":[{"port":"external"}]}');
  expect(text).not.toContain("load-endpoint");
  const keda = JSON.stringify(await render(helm, "--set", "autoscaling.keda=true"));
  expect(keda).toContain('"--load-endpoint=http://metalbridge-autoscaling.metalbridge-system.svc:9464"');
  expect(keda).not.toMatch(/external[-.]metrics/);
  expect(JSON.stringify(await render(helm))).not.toMatch(/external[-.]metrics|metalbridge-autoscaling/);
});

withHelm(
  `for hosts only the controller has no rights to what pods need, and its flag says so${needsHelm}`,
  async () => {
    const ofPods = [
      ...["deployments", "poddisruptionbudgets", "networkpolicies", "podmonitors"],
      "leaderworkersets",
      ...["pods", "pods/log", "pods/eviction", "nodes", "persistentvolumeclaims", "jobs", "storageclasses"],
      "persistentvolumes",
      ...["resourceslices", "resourceclaims", "resourceclaimtemplates", "deviceclasses", "workloads"],
    ];
    const installed = async (...values: string[]) => {
      const set = [
        "controller.liveEviction=true",
        "controller.probeNodes=true",
        "preflight.mode=Deny",
        ...values,
      ];
      const objects = await render(helm, "--set", set.join(","));
      const roles = objects.filter(
        ({ kind, metadata }) => /Role$/.test(kind) && /-controller$/.test(metadata.name),
      );
      const rules = roles.flatMap((role) => (role as unknown as Role).rules);
      const deployment = objects.find(({ kind }) => kind === "Deployment");
      return {
        resources: new Set(rules.flatMap(({ resources }) => resources)),
        onEvents: rules.flatMap(({ resources, verbs }) => (resources.includes("events") ? verbs : [])),
        isTold: JSON.stringify(deployment).includes('"--hosts-only"'),
      };
    };
    const both = await installed();
    const hosts = await installed("pods.enabled=false");
    expect([both.isTold, hosts.isTold]).toEqual([false, true]);
    expect(ofPods.filter((resource) => !both.resources.has(resource))).toEqual([]);
    expect([...hosts.resources].sort()).toEqual(
      [...both.resources].filter((resource) => !ofPods.includes(resource)).sort(),
    );
    expect(hosts.resources).toContain("controllerrevisions");
    expect(hosts.onEvents).toEqual(["create", "patch"]);
  },
);

withHelm(
  `the pods on nodes see four folders and the named ones, read-only, and run without rights${needsHelm}`,
  async () => {
    const values = "node.enabled=true,node.runtimeClassName=nvidia,node.llmfit.enabled=false";
    const objects = await render(helm, "--set", values, "--set-json", 'node.modelFolders=["/srv/models"]');
    const set = objects.find(({ kind }) => kind === "DaemonSet") as unknown as DaemonSet;
    const { containers, volumes, runtimeClassName, securityContext } = set.spec.template.spec;
    const [{ volumeMounts, args, securityContext: own }] = containers;
    expect(volumes.map(({ hostPath }) => hostPath.path).sort()).toEqual([
      "/dev",
      "/proc",
      "/run/udev",
      "/srv/models",
      "/sys",
    ]);
    expect(volumeMounts.every(({ readOnly }) => readOnly)).toBe(true);
    expect(volumeMounts.every(({ mountPath }) => mountPath.startsWith("/host/"))).toBe(true);
    expect(args).toEqual([
      ...["node", "--node-name=$(NODE_NAME)", "--namespace=$(POD_NAMESPACE)", "--host-root=/host"],
      ...["--interval=30", "--log-level=info", "--metrics-port=9100", "--metrics-address=0.0.0.0"],
      "--model-folder=/host/srv/models",
    ]);
    expect(runtimeClassName).toBe("nvidia");
    expect(securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } });
    expect(own).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
    const others = await render(helm);
    expect(others.filter(({ metadata }) => metadata.name.startsWith("metalbridge-node"))).toEqual([]);
  },
);

withHelm(`values become flags of the controller and fields of its pods${needsHelm}`, async () => {
  const digest = `sha256:${"a".repeat(64)}`;
  const objects = await render(
    helm,
    "--set",
    `controller.allowPrivate=true,controller.allowLoopback=false,image.digest=${digest},priorityClass.create=false,priorityClass.name=high`,
    "--set-json",
    'controller.allowNetworks=["10.0.0.0/8","fd00::/8"]',
    "--set-json",
    "controller.sourceCheckSeconds=604800",
  );
  const deployment = objects.find(({ kind }) => kind === "Deployment");
  const pod = {
    priorityClassName: "high",
    containers: [{ image: `registry.example.com/metalbridge@${digest}` }],
  };
  expect(deployment).toMatchObject({ spec: { template: { spec: pod } } });
  expect(JSON.stringify(deployment)).toContain(
    `"controller","--health-address=0.0.0.0","--image=registry.example.com/metalbridge@${digest}","--score-weights=tps=0.7,utilization=0.2,cost=0.1","--benchmarks=Auto","--benchmark-max-age=720h","--label-prefix=metalbridge.dev/","--allow-networks=10.0.0.0/8,fd00::/8","--allow-private","--source-check-seconds=604800"]`,
  );
});

withHelm.each<[set: string, args: string]>([
  [
    "scheduler=null,benchmarks=null,labels=null,node.metricsPort=null",
    '"--score-weights=tps=0.7,utilization=0.2,cost=0.1","--label-prefix=metalbridge.dev/"',
  ],
  [
    "scheduler.weights.tps=null,scheduler.weights.util=0,scheduler.extender=null,benchmarks.maxAge=null,labels.enabled=null",
    '"--score-weights=tps=0.7,utilization=0,cost=0.1","--benchmarks=Auto","--benchmark-max-age=720h","--label-prefix=metalbridge.dev/"',
  ],
  [
    `${["tlsSecretName", "clusterIP", "from"].map((key) => `scheduler.extender.${key}=null`)},scheduler.extender.enabled=true,server.enabled=true,labels.enabled=false`,
    '"--benchmark-max-age=720h","--no-labels"',
  ],
])(`values of an older chart lack %s, as with --reuse-values${needsHelm}`, async (set, args) => {
  const objects = await render(helm, "--set", `node.enabled=true,${set}`);
  expect(JSON.stringify(objects)).toContain(args);
  expect(JSON.stringify(objects)).not.toContain(":null");
});

withHelm.each<[set: string, missing: readonly string[]]>([
  [
    "gateway.enabled=true,openWebUI.enabled=true,openWebUI.secretName=mine",
    ["image", "namespaces", "storage", "storageClass", "caSecretName", "from", "resources"].map(
      (key) => `openWebUI.${key}`,
    ),
  ],
  ["leaderWorkerSet.enabled=true", ["leaderWorkerSet.image"]],
  ["node.enabled=true", ["node.metricsPort", "node.llmfit"]],
  ["replicas=2", ["gateway", "openWebUI", "leaderWorkerSet", "pods.hostPaths"]],
])(`%s renders the same with the values of an older chart${needsHelm}`, async (set, missing) => {
  const objectsWith = async (...more: string[]) => {
    const objects = await render(helm, "--set", [set, ...more].join(","));
    // New at each rendering without a cluster.
    const generated = /^Secret$|WebhookConfiguration$/;
    return objects.filter(({ kind }) => !generated.test(kind));
  };
  const isPort = (key: string) => key === "node.metricsPort";
  const current = await objectsWith(...missing.filter(isPort).map((key) => `${key}=0`));
  expect(await objectsWith(...missing.map((key) => `${key}=null`))).toEqual(current);
});

withHelm(`only the peers that are named reach the port for schedulers${needsHelm}`, async () => {
  const extender = "scheduler.extender.enabled=true,scheduler.extender.from[0].ipBlock.cidr=10.0.0.0/24";
  const objects = await render(helm, "--set", `server.enabled=true,${extender}`);
  const policy = objects.find(
    ({ kind, metadata }) => kind === "NetworkPolicy" && metadata.name === "metalbridge-scheduler-extender",
  );
  const from = [{ ipBlock: { cidr: "10.0.0.0/24" } }];
  expect(policy).toMatchObject({ spec: { ingress: [{ ports: [{ port: "extender" }], from }] } });
});

withHelm(`without replicas there are no pods, and no image is needed${needsHelm}`, async () => {
  const objects = await render(helm, "--set", "replicas=0,image.repository=");
  expect(objects.map(({ kind }) => kind)).not.toContain("Deployment");
});

withHelm(`the address of the runbooks is put before their pages${needsHelm}`, async () => {
  const values = "prometheusRule.enabled=true,prometheusRule.runbooks=https://git.example.com/m/";
  const rules = JSON.stringify(
    (await render(helm, "--set", values)).find(({ kind }) => kind === "PrometheusRule"),
  );
  const urls = [...rules.matchAll(/"runbook_url":"([^"]+)"/g)].map(([, url]) => url);
  expect(urls.length).toBeGreaterThan(20);
  for (const url of urls) expect(url).toMatch(/^https:\/\/git\.example\.com\/m\/docs\/troubleshooting\.md#/);
  expect(rules).toContain("{{ $labels.queue }}");
});

const refused: readonly (readonly [set: string, why: RegExp])[] = [
  ["color=blue", /additional properties 'color' not allowed/],
  ["replicas=-1", /'\/replicas': minimum: got -1, want 0/],
  ["replicas=two", /'\/replicas': got string, want integer/],
  ["controller.healthPort=1", /'\/controller': additional properties 'healthPort' not allowed/],
  ["controller.hfEndpoint=hub", /'\/controller\/hfEndpoint': 'hub' does not match pattern/],
  [
    "controller.logLevel=loud",
    /'\/controller\/logLevel': value must be one of 'debug', 'info', 'warn', 'error'/,
  ],
  ["image.digest=latest", /'\/image\/digest': 'latest' does not match pattern/],
  ["image.repository=", /image\.repository is needed: this chart is from a checkout/],
  ["metrics.interval=soon", /'\/metrics\/interval': 'soon' does not match pattern/],
  ["node.modelFolders={models}", /'\/node\/modelFolders\/0': 'models' does not match pattern/],
  ["pods.hostPaths={/srv/..}", /'\/pods\/hostPaths\/0': '\/srv\/\.\.' does not match pattern/],
  ["podLabels.a=1", /'\/podLabels\/a': got number, want string/],
  ["scheduler.extender.enabled=true", /scheduler\.extender\.enabled requires server\.enabled/],
  ["openWebUI.enabled=true", /openWebUI\.enabled requires gateway\.enabled/],
  ["openWebUI.enabled=true,gateway.enabled=true", /without a cluster: set openWebUI\.secretName/],
  ["node.enabled=true,node.llmfit.enabled=true", /without a cluster: set node\.llmfit\.tokenSecret/],
  [
    "openWebUI.enabled=true,gateway.enabled=true,openWebUI.secretName=a,gateway.userJwtSecretName=b",
    /openWebUI\.secretName and gateway\.userJwtSecretName differ/,
  ],
  [
    "openWebUI.enabled=true,gateway.enabled=true,gateway.userJwtSecretName=mine",
    /leave gateway\.userJwtSecretName empty, or set openWebUI\.secretName/,
  ],
  ["openWebUI.namespaces={A}", /'\/openWebUI\/namespaces\/0': 'A' does not match pattern/],
  ["metrics.service=false,metrics.serviceMonitor=true", /serviceMonitor needs metrics\.service: true/],
  ["metrics.podMonitor=true,metrics.serviceMonitor=true", /would scrape everything twice: choose one/],
];

withHelm.each(refused)(`%s is refused with the reason${needsHelm}`, async (set, why) => {
  await expect(render(helm, "--set", set)).rejects.toThrow(why);
});

withHelm(`another namespace is refused with the flags to use${needsHelm}`, async () => {
  await expect(render(helm, "--namespace", "default")).rejects.toThrow(
    /add --namespace metalbridge-system --create-namespace/,
  );
});

test("the files of the image run without anything beside them", async () => {
  await using folder = await temporaryFolder();
  const dist = await freshBundle(path.join(folder.path, "bundle"));
  const program = layOut(path.join(folder.path, "image"), dist);
  const run = (...args: string[]) =>
    promisify(execFile)(process.execPath, [program, ...args], { cwd: "/", env: {} });
  expect((await run("controller", "--help")).stdout).toContain("--health-address");
  expect((await run("catalog", "show", "Qwen2.5-7B")).stdout).toContain("Qwen/Qwen2.5-7B-Instruct");
  const answer = path.join(folder.path, "answer");
  await run("node", "--probe-to", answer);
  expect(JSON.parse(readFileSync(answer, "utf8"))).toMatchObject({
    memory: { totalBytes: expect.any(Number) },
  });
});
