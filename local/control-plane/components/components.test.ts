import { expect, test } from "vitest";
import { controlPlaneLayoutOf } from "../state/layout.ts";
import { describeApiServer } from "./api-server.ts";
import { describeControllerManager } from "./controller-manager.ts";
import { describeEtcd } from "./etcd.ts";
import { describeScheduler } from "./scheduler.ts";

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
