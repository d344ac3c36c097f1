/** Real clusters for tests: the shared one, and private ones that a test may break. */
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, inject } from "vitest";
import { installBasics, waitUntilServed } from "../../local/control-plane/bootstrap.ts";
import { readPartsConfig } from "../../local/control-plane/config.ts";
import { findClusterParts } from "../../local/control-plane/parts.ts";
import { type ControlPlane, startControlPlane } from "../../local/control-plane/start.ts";
import { controlPlaneLayoutOf } from "../../local/control-plane/state/layout.ts";
import { customResourceDefinitions } from "../../src/api/crd/definitions.ts";
import { type Kubectl, kubectlFor } from "../bed/kubectl.ts";
import { freePort } from "../bed/ports.ts";
import { compactEtcd } from "./etcd-compaction.ts";
import { namespacesOf, type TestNamespace } from "./namespace.ts";
import { quietLog } from "./quiet-log.ts";
import { copyTemplate } from "./template.ts";

export interface TestCluster {
  /** Path of an administrator's kubeconfig. */
  readonly kubeconfig: string;
  readonly kubectl: Kubectl;
  /** `await using namespace = await cluster.namespace()` */
  readonly namespace: () => Promise<TestNamespace>;
}

export interface PrivateCluster extends TestCluster, AsyncDisposable {
  readonly dir: string;
  readonly url: string;
  readonly port: number;
  readonly controlPlane: ControlPlane;
  /** Stops the API server in good order; clients see refused connections until `startApiServer`. */
  readonly stopApiServer: () => Promise<void>;
  readonly startApiServer: () => Promise<void>;
  /** SIGKILL; its supervisor restarts it after a quarter of a second or more. */
  readonly killApiServer: () => void;
  /** Drops all history: a watch from an older resourceVersion then gets 410. */
  readonly compact: () => Promise<void>;
  readonly installCrds: () => Promise<void>;
}

export interface PrivateClusterOptions {
  /** Installs our CRDs and namespaces; true by default. */
  readonly crds?: boolean;
  readonly controllerManager?: boolean;
  /** Binds pods to nodes, which linux-cluster.ts has. */
  readonly scheduler?: boolean;
  /** A KubeSchedulerConfiguration, for a scheduler that is started with it. */
  readonly schedulerConfig?: Readonly<Record<string, unknown>>;
  /** Of an earlier private cluster, to come back with its data; kept on disposal. */
  readonly dir?: string;
  readonly bindAddress?: string;
  /** More flags of kube-apiserver. */
  readonly apiServerArgs?: readonly string[];
  /** More flags of kube-controller-manager. */
  readonly controllerManagerArgs?: readonly string[];
}

/** The control plane that global-setup started; tests share it and must stay in their namespaces. */
export function sharedCluster(): TestCluster {
  return testCluster(inject("clusterKubeconfig"));
}

/** A control plane of one's own, about three seconds to start: `await using cluster = await startCluster()`. */
export async function startCluster(options: PrivateClusterOptions = {}): Promise<PrivateCluster> {
  const dir = options.dir ?? (await mkdtemp(path.join(tmpdir(), "metalbridge-private-")));
  const isReturning = existsSync(controlPlaneLayoutOf(dir).settings);
  const hasCrds = options.crds ?? true;
  const parts = findClusterParts(readPartsConfig());
  if (hasCrds && !isReturning) await copyTemplate(parts, dir);
  const controlPlane = await startControlPlane({
    dir,
    // One that comes back has a port already, and waits for it.
    port: isReturning ? undefined : await freePort(options.bindAddress),
    parts,
    isThrowaway: true,
    log: quietLog,
    controllerManager: options.controllerManager ?? false,
    scheduler: options.scheduler ?? false,
    schedulerConfig: options.schedulerConfig,
    bindAddress: options.bindAddress,
    apiServerArgs: options.apiServerArgs,
    controllerManagerArgs: options.controllerManagerArgs,
  });
  const installCrds = async () => installBasics(controlPlane.access, customResourceDefinitions());
  const dispose = async () => {
    await controlPlane.stop();
    if (options.dir === undefined) await rm(dir, { recursive: true, force: true });
  };
  if (hasCrds) {
    const { access } = controlPlane;
    await waitUntilServed(access, customResourceDefinitions()).catch((error) =>
      dispose().then(() => Promise.reject(error)),
    );
  }
  return {
    ...testCluster(controlPlane.kubeconfig),
    dir,
    url: controlPlane.url,
    port: controlPlane.port,
    controlPlane,
    stopApiServer: controlPlane.stopApiServer,
    startApiServer: controlPlane.startApiServer,
    killApiServer: () => controlPlane.crash("kube-apiserver"),
    compact: () => compactEtcd(controlPlane.etcdSocket),
    installCrds,
    [Symbol.asyncDispose]: dispose,
  };
}

/**
 * One private control plane for all tests of a file or `describe`, one after the other: a start costs seconds of a core. A
 * test that needs an empty one, or changes what cannot be changed back, starts its own.
 */
export function oneCluster(options: PrivateClusterOptions = {}): () => PrivateCluster {
  return one(() => startCluster(options));
}

/** The same for a cluster that is started in another way. */
export function one<T extends PrivateCluster>(start: () => Promise<T>): () => T {
  let cluster: T | undefined;
  beforeAll(async () => {
    cluster = await start();
  });
  afterAll(() => cluster?.[Symbol.asyncDispose]());
  return () => {
    if (cluster === undefined) throw new Error("the cluster starts before the first test, not before");
    return cluster;
  };
}

function testCluster(kubeconfig: string): TestCluster {
  const kubectl = kubectlFor(kubeconfig);
  return { kubeconfig, kubectl, namespace: namespacesOf(kubeconfig) };
}
