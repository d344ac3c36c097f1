/** Two complete agents with the credentials of their hosts: the second downloads a model from the first, which it finds by the status. */
import { randomBytes } from "node:crypto";
import path from "node:path";
import { expect, test, vi } from "vitest";
import { LABEL_HOST } from "../../src/api/group.ts";
import { type Host, hostSchema } from "../../src/api/host.ts";
import { addHost, giveIdentity } from "../../test/bed/identity.ts";
import { freePort } from "../../test/bed/ports.ts";
import { sharedCluster } from "../../test/cluster/cluster.ts";
import { manifest, withFields } from "../../test/fixtures/manifests.ts";
import { ggufBytes, sha256, startOrigin } from "../../test/fixtures/origin.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { startAgent, testAddress } from "../fixtures/agent.ts";
import { CHUNK_BYTES } from "../store/content/prefix-hash.ts";

const PATIENTLY = { timeout: 60_000, interval: 100 };

test("a host downloads a model from the host whose status lists it, with only the rights of a host", async () => {
  const cluster = sharedCluster();
  await using folder = await temporaryFolder();
  await using namespace = await cluster.namespace();
  await using origin = await startOrigin();
  const content = ggufBytes(5 * CHUNK_BYTES, 11);
  origin.serve("/model.gguf", content);
  const model = { source: `${origin.url}/model.gguf`, sha256: sha256(content), format: "gguf" };
  const downloads = (): number => origin.seen.filter(({ method }) => method === "GET").length;
  const names = ["first", "second"].map((name) => `${name}-${randomBytes(4).toString("hex")}`);
  const begin = async (hostName: string) => {
    const file = path.join(folder.path, hostName);
    await giveIdentity(cluster, hostName, file);
    await addHost(cluster, hostName, [testAddress()]);
    const peers = { enabled: true, port: await freePort(testAddress()) };
    return startAgent({ kubeconfig: file, hostName, peers, sources: { allowLoopback: true } });
  };
  const deploy = (hostName: string) => {
    const replica = withFields(manifest("InferenceReplica", hostName, namespace.name), {
      "spec.template.hostName": hostName,
      "spec.template.model": model,
      "metadata.labels": { [LABEL_HOST]: hostName },
    });
    return cluster.objects.create(replica);
  };
  const statusOf = async (hostName: string): Promise<Host["status"]> =>
    hostSchema.parse(await cluster.objects.get("", `hosts/${hostName}`)).status;
  type Peer = NonNullable<Host["status"]>["peer"];
  const untilPeer = (hostName: string, check: (peer: Peer) => void) =>
    cluster.objects.until("", `hosts/${hostName}`, (host) => check(hostSchema.parse(host).status?.peer));
  const [one = "", two = ""] = names;
  await using first = await begin(one);
  await untilPeer(one, (peer) => expect(peer?.port).toBeDefined());
  await deploy(one);
  await untilPeer(one, (peer) => expect(peer?.offers).toMatchObject([{ complete: true }]));
  expect(downloads()).toBe(1);
  await using second = await begin(two);
  // Known to the other: it waits only seconds for who asks.
  await untilPeer(two, (peer) => expect(peer?.port).toBeDefined());
  await deploy(two);
  await vi.waitFor(() => {
    const taken = second.lines.find(({ message }) => message === "model file taken from peers");
    expect(taken?.data.peers).toEqual([one]);
  }, PATIENTLY);
  expect(downloads()).toBe(1);
  const fingerprints = await Promise.all(
    names.map(async (name) => (await statusOf(name))?.peer?.fingerprint),
  );
  expect(new Set(fingerprints).size).toBe(2);
  await first.stop();
  await second.stop();
  await cluster.objects.remove("", ...names.map((name) => `hosts/${name}`));
});
