import { expect, test } from "vitest";
import { controlPlaneLayoutOf } from "../state/layout.ts";
import { describeApiServer } from "./api-server.ts";
import { describeControllerManager } from "./controller-manager.ts";
import { describeEtcd } from "./etcd.ts";
import { describeScheduler, digestOf, parseSchedulerConfig, renderSchedulerConfig } from "./scheduler.ts";

const parts = { etcd: "/p/etcd", kubeApiserver: "/p/kube-apiserver" };
const layout = controlPlaneLayoutOf("/state", "run-1");

test("etcd listens on sockets in the run's own folder, and nowhere else", () => {
  const etcd = describeEtcd(parts, layout, { fsync: true });
  expect(etcd.cwd).toBe("/state/run/run-1");
  const urls = etcd.args.filter((arg) => arg.includes("-urls=") || arg.includes("initial-cluster="));
  expect(urls).toHaveLength(5);
  for (const url of urls) expect(url).toMatch(/unix:\/\/\w+\.sock$/);
  expect(etcd.args).not.toContain("--unsafe-no-fsync");
  expect(describeEtcd(parts, layout, { fsync: false }).args).toContain("--unsafe-no-fsync");
});

test("the API server binds to the one address and authenticates every request", () => {
  const { args } = describeApiServer(parts, layout, { address: "10.1.2.3", port: 7443 });
  expect(args).toContain("--bind-address=10.1.2.3");
  expect(args).toContain("--advertise-address=10.1.2.3");
  expect(args).toContain("--secure-port=7443");
  expect(args).toContain("--authorization-mode=Node,RBAC");
  expect(args).toContain("--anonymous-auth=false");
  expect(args.join(" ")).not.toMatch(/=0\.0\.0\.0|insecure/);
});

test("secrets are in files, never in arguments", () => {
  const manager = describeControllerManager({ ...parts, kubeControllerManager: "/p/kcm" }, layout, {
    address: "::1",
  });
  const all = [
    ...(manager?.args ?? []),
    ...(describeScheduler({ ...parts, kubeScheduler: "/p/ks" }, layout)?.args ?? []),
    ...describeApiServer(parts, layout, { address: "::1", port: 1 }).args,
  ];
  expect(all.filter((arg) => /token|key/.test(arg)).every((arg) => arg.includes("=/state/pki/"))).toBe(true);
});

test("without their programs there is neither controller manager nor scheduler", () => {
  expect(describeScheduler(parts, layout)).toBeUndefined();
  expect(describeControllerManager(parts, layout, { address: "127.0.0.1" })).toBeUndefined();
});

const GIVEN = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

test.each(["", "- a", "kind: Pod", "kind: KubeSchedulerConfiguration", "{", `${GIVEN}---\n${GIVEN}`])(
  "%j is refused as a configuration of kube-scheduler",
  (text) => {
    expect(() => parseSchedulerConfig(text, "/c.yaml")).toThrow(
      expect.objectContaining({
        code: "SchedulerConfigInvalid",
        message: expect.stringMatching(/^\/c\.yaml: /),
      }),
    );
  },
);

test("a configuration of kube-scheduler gets the settings that its flags would have", () => {
  const config = parseSchedulerConfig(`${GIVEN}leaderElection: { leaderElect: true }\nparallelism: 2`, "c");
  expect(JSON.parse(renderSchedulerConfig(config, layout))).toEqual({
    apiVersion: "kubescheduler.config.k8s.io/v1",
    kind: "KubeSchedulerConfiguration",
    parallelism: 2,
    clientConnection: { kubeconfig: layout.schedulerKubeconfig, qps: 500, burst: 1_000 },
    leaderElection: { leaderElect: false },
    enableProfiling: false,
  });
});

test("the digest of a configuration ignores order and comments", () => {
  const digest = digestOf(parseSchedulerConfig(`${GIVEN}parallelism: 2`, "c"));
  expect(digestOf(parseSchedulerConfig(`parallelism: 2 # Two.\n${GIVEN}`, "c"))).toBe(digest);
  expect(digestOf(parseSchedulerConfig(GIVEN, "c"))).not.toBe(digest);
  expect(digestOf(undefined)).toBeUndefined();
});
