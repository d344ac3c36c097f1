/** What users see of a service in pods while something is wrong, and that a correction is enough. */
import { appendFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { OUR_IMAGE } from "../../scripts/images/for-tests.ts";
import { INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import { PODS } from "../../src/kube/kinds.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { lostOf } from "../bed/load/clients.ts";
import { whyNoRealNode } from "../bed/node/parts.ts";
import { type LocalVolume, localVolume } from "../bed/node/volumes.ts";
import { NAMESPACE } from "../bed/services.ts";
import { until } from "../bed/until.ts";
import { type PodsBed, startPodsBed } from "./bed.ts";
import { EPHEMERAL, faultsIn } from "./faults.ts";

/** Refused by this node at once. */
const NO_REGISTRY = "127.0.0.1:1/llama.cpp";

describeUnless(whyNoRealNode(), "faults in pods", () => {
  let bed: PodsBed;
  let faults: ReturnType<typeof faultsIn>;
  beforeAll(async () => {
    // Seconds instead of minutes.
    const short = { leaseSeconds: 8, backOffSeconds: 2 };
    bed = await startPodsBed({
      nodes: [
        { name: "node-1", ...short },
        { name: "node-2", ...short },
      ],
      controllerManagerArgs: ["--node-monitor-grace-period=10s", "--node-monitor-period=1s"],
      files: {
        "/huge.gguf": { sparse: true, feedForwardSize: 65_536 },
        "/corrupt.gguf": { metadata: { "llama.block_count": { type: "u32", value: 5 } } },
      },
    });
    faults = faultsIn(bed);
  });
  afterAll(() => bed?.[Symbol.asyncDispose]());

  const removePods = async (service: string) => {
    const names = (await bed.pods(service)).map(({ metadata }) => `pod/${metadata.name}`);
    await bed.farm.objects.remove(NAMESPACE, ...names);
  };
  const source = (name: string) => ({ source: `${bed.origin}/${name}.gguf` });
  const correct = (name: string) => bed.patch(`model/${name}`, { spec: source("good") });
  /** A claim that many nodes may mount, so that a Job fills it. */
  const claimFor = async (name: string, volume: LocalVolume) => {
    const spec = {
      accessModes: ["ReadWriteMany"],
      volumeName: volume.name,
      resources: { requests: { storage: "1Gi" } },
    };
    const claim = { apiVersion: "v1", kind: "PersistentVolumeClaim", metadata: { name }, spec };
    await bed.farm.objects.apply(claim);
    return { modelCache: { claimName: name } };
  };

  test("a container that is killed for its memory is named with the remedy, and runs once it has more", async () => {
    const node = bed.cluster.node("node-1");
    const limits = [{ type: "Container", default: { memory: "96Mi" } }];
    const range = { apiVersion: "v1", kind: "LimitRange", metadata: { name: "small" }, spec: { limits } };
    await bed.farm.objects.apply(range);
    // Without a map of the file, all of it is the process's own memory.
    const extraArgs = ["--threads", "1", "--load-mode", "none"];
    await bed.apply("engine-oom", { ...EPHEMERAL, extraArgs }, source("huge"));
    const little = { resources: { memory: "12Mi" } };
    await bed.apply("init-oom", EPHEMERAL, little);
    const claim = await claimFor("job-oom", await localVolume(bed.farm.objects, node, { size: "1Gi" }));
    await bed.apply("job-oom", claim, little);
    await Promise.all([
      faults.until(
        "engine-oom",
        "PodCrashing",
        /^0 of 1 .*engine of .*\(OOMKilled\).*To do: raise its memory limit of 96Mi/s,
      ),
      faults.until(
        "init-oom",
        "PodCrashing",
        /fetch of .*\(OOMKilled\)\. To do: raise spec\.resources\.memory of the Model/,
      ),
      bed.untilModel("job-oom", { phase: "Pending", reason: "DownloadFailed" }),
      faults.until(
        "job-oom",
        "ModelNotReady",
        /DownloadFailed.*OOMKilled.*raise spec\.resources\.memory/,
        "Pending",
      ),
    ]);
    const { status } = await bed.farm.objects.read(INFERENCE_SERVICES, "job-oom");
    expect(status?.conditions).toContainEqual(expect.objectContaining({ type: "Degraded", status: "True" }));
    // No pod was made for a claim that the service does not name.
    expect(await bed.pods("job-oom")).toEqual([]);

    await bed.farm.objects.remove(NAMESPACE, "limitrange/small");
    await removePods("engine-oom");
    for (const name of ["init-oom", "job-oom"])
      await bed.patch(`model/${name}`, { spec: { resources: { memory: "256Mi" } } });
    await faults.untilReady("engine-oom", "init-oom", "job-oom");
    await faults.remove("engine-oom", "init-oom", "job-oom");
  });

  // They wait most of their time.
  describe.concurrent("side by side", () => {
    test("a crash loop is one phase and one Event, with the line that says why", async () => {
      const flags = { extraArgs: ["--threads", "1", "--grammar", "broken("] };
      const other = { image: OUR_IMAGE };
      await bed.apply("flag", { ...EPHEMERAL, ...flags });
      await bed.apply("corrupt", EPHEMERAL, source("corrupt"));
      await bed.apply("other", { ...EPHEMERAL, ...other });
      const restarted = (text: string) =>
        new RegExp(
          `has restarted ([3-9]|\\d\\d) times: exit code \\d+ \\(Error\\): ${text}\\. To do: read its log: kubectl logs`,
        );
      await Promise.all([
        faults.until("flag", "PodCrashing", restarted(".*failed to parse grammar")),
        faults.until(
          "corrupt",
          "PodCrashing",
          restarted("llama_model_load: error loading model: .*not found"),
        ),
        faults.until("other", "PodCrashing", restarted("error: unknown option '--model'")),
      ]);
      for (const name of ["flag", "corrupt", "other"]) await faults.expectSteadyCrash(name);
      await bed.patch("isvc/flag", { spec: { extraArgs: ["--threads", "1"] } });
      await bed.patch("isvc/other", { spec: { image: null } });
      await correct("corrupt");
      await faults.untilReady("flag", "corrupt", "other");
      await faults.remove("flag", "corrupt", "other");
    });

    test("an image that cannot be pulled stops nothing that serves, and its correction is enough", async () => {
      const node = bed.cluster.node("node-1");
      const digest = `${NO_REGISTRY}@sha256:${"0123456789abcdef".repeat(4)}`;
      await bed.apply("digest", { ...EPHEMERAL, image: digest });
      await bed.apply("serving", EPHEMERAL);
      await faults.untilReady("serving");
      await bed.patch("isvc/serving", { spec: { image: `${NO_REGISTRY}:no-such-tag` } });
      await Promise.all([
        faults.until(
          "serving",
          "ImageUnavailable",
          /^1 of 1 replicas ready; engine of .*no-such-tag.*To do: set spec\.image to an image/s,
        ),
        faults.until(
          "digest",
          "ImageUnavailable",
          /^0 of 1 replicas ready; .*@sha256:0123.*To do: set spec\.image to an image/s,
        ),
      ]);
      expect(await bed.ask(node, "serving")).toContain("choices");
      for (const name of ["serving", "digest"]) await bed.patch(`isvc/${name}`, { spec: { image: null } });
      await faults.untilReady("serving", "digest");
      await faults.remove("serving", "digest");
    });

    test("a source that refuses, lacks or breaks off is named at once, and its correction is enough", async () => {
      const node = bed.cluster.node("node-1");
      await bed.apply("locked", EPHEMERAL, source("401"));
      await bed.apply("missing", EPHEMERAL, source("404"));
      await bed.apply("cut", EPHEMERAL, source("cut"));
      const claim = await claimFor("job-cut", await localVolume(bed.farm.objects, node, { size: "1Gi" }));
      await bed.apply("job-cut", claim, source("cut"));
      await Promise.all([
        faults.until(
          "locked",
          "ModelFailed",
          /SourceUnauthorized: .* answered 401; .*spec\.sourceSecretRef/,
          "Failed",
        ),
        faults.until("missing", "ModelFailed", /SourceNotFound: .* answered 404; check the source/, "Failed"),
        faults.until("cut", "SourceTruncated", /fetch of .*broke off.*To do: /),
        bed.untilModel("job-cut", { phase: "Pending", reason: "SourceTruncated" }),
      ]);
      await until(async () => {
        const pods = await bed.farm.objects.list(PODS, "metalbridge.dev/model=job-cut");
        expect(pods.length).toBeGreaterThan(1);
      });
      await faults.until("job-cut", "ModelNotReady", /SourceTruncated.*broke off/, "Pending");
      const phases = faults.phasesOf("model", "job-cut");
      expect(phases.slice(phases.indexOf("Pending SourceTruncated"))).toEqual(["Pending SourceTruncated"]);
      for (const name of ["locked", "missing", "cut", "job-cut"]) await correct(name);
      await faults.untilReady("locked", "missing", "cut", "job-cut");
      await faults.remove("locked", "missing", "cut", "job-cut");
    });

    test("a disk that is too small is named, and heals once it is larger; an evicted pod says why", async () => {
      const node = bed.cluster.node("node-1");
      const small = await localVolume(bed.farm.objects, node, { size: "4Gi", tmpfs: true, realSize: "8Mi" });
      await bed.apply("full", { resources: { memory: "48Mi" } }, source("huge"));
      const storage = (ephemeralStorage: string) => ({ resources: { memory: "48Mi", ephemeralStorage } });
      await bed.apply("tight", { ...EPHEMERAL, ...storage("20Mi") }, source("huge"));
      await bed.apply("evicted", { ...EPHEMERAL, ...storage("10Mi") });
      await Promise.all([
        faults.until(
          "full",
          "DiskFull",
          /needs 9\d.* more; the disk has 8 MiB free.*To do: enlarge the claim/,
        ),
        faults.until(
          "tight",
          "DiskFull",
          /downloads 9\d.* of weights, and .*ephemeralStorage is 20Mi: raise it/,
          "Failed",
        ),
        faults.untilReady("evicted"),
      ]);
      const onNode = path.join(node.folder, "volumes", small.name);
      await node.run("mount", "-o", "remount,size=512m", onNode);
      await bed.patch("isvc/tight", { spec: storage("1Gi") });
      const [pod] = await bed.pods("evicted");
      const home = bed.cluster.node(pod?.spec.nodeName ?? "").folder;
      const volume = path.join(
        home,
        "kubelet/pods",
        pod?.metadata.uid ?? "",
        "volumes/kubernetes.io~empty-dir/cache",
      );
      appendFileSync(path.join(volume, "grown"), Buffer.alloc(20 << 20, 1));
      await until(() => expect(faults.phasesOf("service", "evicted")).toContain("Degraded PodEvicted"));
      await faults.untilReady("full", "tight", "evicted");
      expect(await faults.eventsOf("evicted", "PodEvicted")).toEqual([1]);
      await faults.remove("full", "tight", "evicted");
    });
  });

  test("a node is drained under load without a failed request, and a volume on it waits for its uncordon", async ({
    annotate,
  }) => {
    const [one, two] = [bed.cluster.node("node-1"), bed.cluster.node("node-2")];
    await localVolume(bed.farm.objects, two, { size: "4Gi" });
    await bed.apply("bound", { resources: { memory: "48Mi" } });
    // Gone from a lost node sooner than the 300 s of Kubernetes.
    const tolerations = ["unreachable", "not-ready"].map((name) => ({
      key: `node.kubernetes.io/${name}`,
      operator: "Exists",
      effect: "NoExecute",
      tolerationSeconds: 3,
    }));
    const topologySpreadConstraints = [
      {
        maxSkew: 1,
        topologyKey: "kubernetes.io/hostname",
        whenUnsatisfiable: "ScheduleAnyway",
        labelSelector: { matchLabels: { "metalbridge.dev/service": "spread" } },
      },
    ];
    await bed.apply("spread", { ...EPHEMERAL, replicas: 2, tolerations, topologySpreadConstraints });
    await faults.untilReady("bound", "spread");
    const clients = await bed.clients(one, "spread");
    await clients.untilEachAsked(2);
    const started = performance.now();
    await bed.kubectl(["drain", "node-2", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=80s"]);
    await annotate(`drained in ${Math.round(performance.now() - started)} ms`);
    await Promise.all([
      bed.until("spread", { phase: "Ready", readyReplicas: 2 }),
      faults.until(
        "bound",
        "UnbindableModelCache",
        /unschedulable.*To do: .*uncordon the volume's node/s,
        "WaitingForCapacity",
      ),
    ]);
    await clients.untilEachAsked(2);
    expect(lostOf(await clients.stop())).toEqual([]);
    expect((await bed.pods("spread")).map(({ spec }) => spec.nodeName)).toEqual(["node-1", "node-1"]);
    await bed.farm.objects.patch("", "node/node-2", { spec: { unschedulable: null } });
    await faults.untilReady("bound");
    await bed.farm.objects.remove(NAMESPACE, `pod/${(await bed.pods("spread"))[0]?.metadata.name}`);
    await bed.until("spread", { phase: "Ready", readyReplicas: 2 });
    expect((await bed.pods("spread")).map(({ spec }) => spec.nodeName).sort()).toEqual(["node-1", "node-2"]);
  });

  test("a node whose kubelet is silent is named, its pods run on, and all is well once it is back", async ({
    annotate,
  }) => {
    const node = bed.cluster.node("node-2");
    const [pod] = await bed.pods("bound");
    const name = pod?.metadata.name ?? "";
    const started = performance.now();
    await node.stopKubelet();
    await faults.until(
      "bound",
      "NodeNotReady",
      /^0 of 1 replicas ready; bound-.* is on node node-2, which is not ready since/,
    );
    await annotate(`named after ${Math.round(performance.now() - started)} ms with a grace of 10 s`);
    expect((await node.containers(NAMESPACE, name)).has("engine")).toBe(true);
    node.startKubelet();
    await faults.untilReady("bound");
    expect((await bed.pods("bound")).map(({ metadata }) => metadata.name)).toEqual([name]);
    expect(await faults.eventsOf("bound", "NodeNotReady")).toEqual([1]);
  });

  test("pods of a lost node are rescheduled, and one whose volume is lost with it says what to do", async ({
    annotate,
  }) => {
    const node = bed.cluster.node("node-2");
    await faults.untilReady("spread");
    const started = performance.now();
    await node.kill();
    await faults.until("bound", "NodeNotReady", /To do: bring the node back; .*delete the Node object/);
    await until(async () => {
      const pods = await bed.pods("spread");
      const living = pods.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
      expect(living.map(({ spec }) => spec.nodeName)).toEqual(["node-1", "node-1"]);
    });
    await bed.until("spread", { phase: "Ready", readyReplicas: 2 });
    await annotate(`two replicas again after ${Math.round(performance.now() - started)} ms`);
    // It will come back under another name, if at all.
    await bed.farm.objects.remove("", "node/node-2");
    await bed.kubectl(["delete", "pod", "-n", NAMESPACE, "-l", "metalbridge.dev/service=bound", "--force"]);
    await faults.until(
      "bound",
      "UnbindableModelCache",
      /node affinity.*To do: .*delete it, and it is created again/s,
      "WaitingForCapacity",
    );
    await localVolume(bed.farm.objects, bed.cluster.node("node-1"), { size: "4Gi" });
    const { status } = await bed.farm.objects.read(MODELS, "bound");
    await bed.farm.objects.startRemoval(NAMESPACE, `pvc/${status?.cache?.claimName}`);
    await removePods("bound");
    await faults.untilReady("bound");
  });
});
