/** The chart in pods of a real node, upgraded and rolled back under load, and to images that are not ours. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { callApi } from "../../local/control-plane/request.ts";
import { OUR_IMAGE, OUR_REPOSITORY } from "../../scripts/images/for-tests.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { KubectlFailed } from "../bed/kubectl.ts";
import { allKinds, type Clients, startClients } from "../bed/load/clients.ts";
import type { Asked } from "../bed/load/protocol.ts";
import { PAUSE_IMAGE } from "../bed/node/containerd.ts";
import { until } from "../bed/until.ts";
import { CHART, NAMESPACE } from "../chart/helm.ts";
import { type ChartBed, enforce, startChartBed, whyNoChart } from "./chart-bed.ts";

const OURS = "app.kubernetes.io/name=metalbridge";
const SERVED = "metalbridge.dev/service=chat";
const NEXT = "0.2.0";
/** No node has as much memory. */
const TOO_LARGE = JSON.stringify({ spec: { resources: { hostMemory: "900Gi" } } });
const NEXT_IMAGE = `${OUR_REPOSITORY}:${NEXT}`;

describeUnless(whyNoChart, "upgrades of the chart on a real node", () => {
  let bed: ChartBed;
  let clients: Clients;
  let engine: Pod;
  beforeAll(async () => {
    bed = await startChartBed();
    await enforce(bed.cluster.objects, NAMESPACE, "privileged");
    await bed.tagImage(OUR_IMAGE, NEXT_IMAGE);
    const values = "server.enabled=true,node.enabled=true,preflight.mode=Deny,preflight.fixedNodes=true";
    await bed.install("--set", values);
    await bed.serve("chat");
    engine = await engineOf(bed);
    const { namespace } = bed.cluster.network.station("node-1");
    clients = startClients(namespace, { url: await bed.url("chat"), clients: allKinds() });
    await clients.untilEachAsked(3);
  });
  afterAll(async () => {
    await clients?.[Symbol.asyncDispose]();
    await bed?.[Symbol.asyncDispose]();
  });

  test("a service that fits nowhere is refused by the webhook in the pod", async () => {
    await expectRefusal(bed);
  });

  test("an upgrade to another version replaces all of ours, and no pod of a service", async ({
    annotate,
  }) => {
    const leader = await leaderOf(bed);
    const chart = await bed.packaged(NEXT);
    const started = performance.now();
    await whileRefusing(bed, async () => {
      await bed.upgrade(chart, "--set", "controller.logLevel=debug,preflight.timeoutSeconds=6");
      await annotate(`${Math.round(performance.now() - started)} ms`);
      await untilOldPodsAreGone(bed);
    });
    expect(await imagesOf(bed)).toEqual([NEXT_IMAGE, NEXT_IMAGE, NEXT_IMAGE, NEXT_IMAGE]);
    await until(async () => expect(await leaderOf(bed)).not.toBe(leader));
    await expectRefusal(bed);
    await expectUntouched(bed, engine);
  });

  test("a restart of the service then takes the new image for its init container", async () => {
    const { kubectl } = bed;
    await kubectl(["annotate", "isvc/chat", `metalbridge.dev/restarted-at=${new Date().toISOString()}`]);
    await until(async () => expect((await engineOf(bed)).metadata.uid).not.toBe(engine.metadata.uid));
    engine = await engineOf(bed);
    expect(engine.spec.initContainers?.map(({ image }) => image)).toEqual([NEXT_IMAGE]);
  });

  test("a rollback replaces all of ours again, and no pod of a service", async ({ annotate }) => {
    const leader = await leaderOf(bed);
    const started = performance.now();
    await whileRefusing(bed, async () => {
      await bed.helm("rollback", "metalbridge", "-n", NAMESPACE, "--wait", "--timeout=120s");
      await annotate(`${Math.round(performance.now() - started)} ms`);
      await untilOldPodsAreGone(bed);
    });
    expect(await imagesOf(bed)).toEqual([OUR_IMAGE, OUR_IMAGE, OUR_IMAGE, OUR_IMAGE]);
    await until(async () => expect(await leaderOf(bed)).not.toBe(leader));
    await expectRefusal(bed);
    await expectUntouched(bed, engine);
  });

  test("an image that does not exist, and another program in its place, fail the upgrade in time", async () => {
    const { kubectl } = bed;
    const leader = await leaderOf(bed);
    const controllers = `${OURS},app.kubernetes.io/component=controller`;
    /** Description of the pod with that image. Where kubectl describes several it leaves out their Events. */
    const described = async (image: string) => {
      const pods = await bed.pods(NAMESPACE, controllers);
      const pod = pods.find(({ spec }) => spec.containers[0]?.image === image);
      return kubectl(["describe", `pod/${pod?.metadata.name}`, "-n", NAMESPACE]);
    };
    const badly = async (repository: string, tag: string) => {
      const values = `image.repository=${repository},image.tag=${tag}`;
      const failing = bed.upgrade(CHART, "--timeout=10s", "--set", values);
      await expect(failing).rejects.toThrow(/UPGRADE FAILED/);
      return described(`${repository}:${tag}`);
    };
    // Nothing listens there on the node.
    const missing = await badly("127.0.0.1:1/metalbridge", "0.9.9");
    expect(missing).toMatch(/Failed to pull image "127\.0\.0\.1:1\/metalbridge:0\.9\.9"/);
    await bed.tagImage(PAUSE_IMAGE, `${OUR_REPOSITORY}:0.9.8`);
    const other = await badly(OUR_REPOSITORY, "0.9.8");
    expect(other).toMatch(/Readiness probe failed: .*connection refused/);
    expect(await leaderOf(bed)).toBe(leader);
    await expectUntouched(bed, engine);
    await bed.helm("rollback", "metalbridge", "2", "-n", NAMESPACE, "--wait", "--timeout=120s");
    expect(await imagesOf(bed)).toEqual([NEXT_IMAGE, NEXT_IMAGE, NEXT_IMAGE, NEXT_IMAGE]);
    await expectUntouched(bed, engine);
  });

  test("no request has failed", async ({ annotate }) => {
    const asked = await clients.stop();
    const seconds = ((asked.at(-1)?.endedAt ?? 0) - (asked[0]?.startedAt ?? 0)) / 1_000;
    await annotate(`${asked.length} requests in ${Math.round(seconds)} s`);
    expect(asked.filter(({ failure }) => failure !== "").map(inWords)).toEqual([]);
  });
});

/** Asks for it without a pause, and stores nothing. No answer may be another than the refusal. */
async function whileRefusing({ cluster }: ChartBed, rollout: () => Promise<void>): Promise<void> {
  const question = {
    method: "PATCH",
    path: "/apis/metalbridge.dev/v1alpha1/namespaces/default/inferenceservices/chat?dryRun=All",
    contentType: "application/merge-patch+json",
    body: TOO_LARGE,
  } as const;
  const answers: string[] = [];
  let isOver = false;
  const rolling = rollout().finally(() => {
    isOver = true;
  });
  const asking = async () => {
    while (!isOver) {
      const { status } = await callApi(cluster.access, question);
      answers.push(`${new Date().toISOString()} ${status}`);
    }
  };
  await Promise.all([rolling, asking()]);
  expect(answers.length).toBeGreaterThan(50);
  expect(answers.filter((answer) => !answer.endsWith(" 403"))).toEqual([]);
}

async function untilOldPodsAreGone(bed: ChartBed): Promise<void> {
  const isStopping = ({ metadata }: Pod) => metadata.deletionTimestamp !== undefined;
  await until(async () => expect((await bed.pods(NAMESPACE, OURS)).filter(isStopping)).toEqual([]));
}

async function expectRefusal({ kubectl }: ChartBed): Promise<void> {
  const refused = await kubectl(["patch", "isvc/chat", "--type=merge", "-p", TOO_LARGE]).catch(
    (error: unknown) => error,
  );
  expect(refused instanceof KubectlFailed && refused.stderr).toMatch(
    /the model fits no machine: it needs 900 GiB, but the closest machine, node-1, offers/,
  );
}

async function expectUntouched(bed: ChartBed, engine: Pod): Promise<void> {
  const { metadata, status } = await engineOf(bed);
  expect(metadata.uid).toBe(engine.metadata.uid);
  expect(status?.containerStatuses).toMatchObject([{ restartCount: 0, ready: true }]);
}

/** The one pod of the service. */
async function engineOf(bed: ChartBed): Promise<Pod> {
  const [pod, ...more] = await bed.pods("default", SERVED);
  if (pod === undefined || more.length > 0) throw new Error(`${more.length + (pod ? 1 : 0)} pods serve`);
  return pod;
}

/** Images of our running pods: two controllers, the server and the one of the DaemonSet. */
async function imagesOf(bed: ChartBed): Promise<readonly (string | undefined)[]> {
  const pods = await bed.pods(NAMESPACE, OURS);
  const running = pods.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  return running.map(({ spec }) => spec.containers[0]?.image);
}

async function leaderOf({ kubectl }: ChartBed): Promise<string> {
  const format = "jsonpath={.spec.holderIdentity}";
  return kubectl(["get", "lease", "metalbridge-controller", "-n", NAMESPACE, "-o", format]);
}

function inWords({ client, startedAt, endedAt, failure }: Asked): string {
  const ms = Math.round(endedAt - startedAt);
  return `${new Date(startedAt).toISOString()} ${client}, ${ms} ms: ${failure}`;
}
