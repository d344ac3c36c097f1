/** Real clusters for tests: the shared one, and private ones that a test may break. */
import { afterAll, beforeAll, inject } from "vitest";
import { installBasics } from "../../local/control-plane/bootstrap.ts";
import type { ApiAccess } from "../../local/control-plane/request.ts";
import { customResourceDefinitions } from "../../src/api/crd/definitions.ts";
import { type Kubectl, kubectlFor } from "../bed/kubectl.ts";
import { type Objects, objectsOf } from "../bed/objects.ts";
import { compactEtcd, readStored, restoreStored } from "./etcd.ts";
import { namespacesOf, type TestNamespace } from "./namespace.ts";
import { borrowPlane, isLeftAlone, type PrivateClusterOptions } from "./planes.ts";

export type { PrivateClusterOptions } from "./planes.ts";

export interface TestCluster {
  /** Path of an administrator's kubeconfig. */
  readonly kubeconfig: string;
  /** The real program, for tests that show what users see. */
  readonly kubectl: Kubectl;
  /** With the rights of an administrator, in this process. */
  readonly objects: Objects;
  /** `await using namespace = await cluster.namespace()` */
  readonly namespace: () => Promise<TestNamespace>;
}

export interface PrivateCluster extends TestCluster, AsyncDisposable {
  readonly dir: string;
  readonly url: string;
  readonly port: number;
  readonly access: ApiAccess;
  /** Stops the API server in good order; clients see refused connections until `startApiServer`. */
  readonly stopApiServer: () => Promise<void>;
  readonly startApiServer: () => Promise<void>;
  /** SIGKILL; its supervisor restarts it after a quarter of a second or more. */
  readonly killApiServer: () => void;
  /** Drops all history: a watch from an older resourceVersion then gets 410. */
  readonly compact: () => Promise<void>;
  readonly installCrds: () => Promise<void>;
  /** Resolves with a function that brings all that is stored back to what it is now. */
  readonly remember: () => Promise<() => Promise<void>>;
}

/** One for all files of a worker: it keeps its connections. */
let shared: TestCluster | undefined;

/** The control plane that global-setup started; tests share it and must stay in their namespaces. */
export function sharedCluster(): TestCluster {
  shared ??= testCluster(inject("clusterKubeconfig"));
  return shared;
}

/** A control plane of one's own, empty but for our CRDs and namespaces: `await using cluster = await startCluster()`. */
export async function startCluster(options: PrivateClusterOptions = {}): Promise<PrivateCluster> {
  const { plane, giveBack } = await borrowPlane(options);
  const { controlPlane, dir } = plane;
  let isIntact = true;
  /** A part that a test has stopped or killed is not for other tests. */
  const wear = <T>(act: () => T): T => {
    isIntact = false;
    return act();
  };
  const own = testCluster(controlPlane.kubeconfig);
  return {
    ...own,
    dir,
    url: controlPlane.url,
    port: controlPlane.port,
    access: controlPlane.access,
    stopApiServer: () => wear(controlPlane.stopApiServer),
    startApiServer: () => wear(controlPlane.startApiServer),
    killApiServer: () => wear(() => controlPlane.crash("kube-apiserver")),
    compact: () => compactEtcd(controlPlane.etcdSocket),
    installCrds: () => installBasics(controlPlane.access, customResourceDefinitions()),
    remember: async () => {
      const stored = await readStored(controlPlane.etcdSocket);
      return async () => void (await restoreStored(controlPlane.etcdSocket, stored, isLeftAlone));
    },
    [Symbol.asyncDispose]: async () => {
      own.objects[Symbol.dispose]();
      await giveBack(isIntact);
    },
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
  return {
    kubeconfig,
    kubectl: kubectlFor(kubeconfig),
    objects: objectsOf(kubeconfig),
    namespace: namespacesOf(kubeconfig),
  };
}
