/** What a thief with the join token of a group tries, and what the real API server answers. */
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type JoinGroup, joinAccess, joinAccount } from "../../src/api/access/join-group.ts";
import { API_VERSION, NAMESPACE_HOSTS, NAMESPACE_JOIN } from "../../src/api/group.ts";
import { createJoinKey } from "../../src/crypto/join-seal.ts";
import { connect, type KubeConnection } from "../../src/kube/client/connect.ts";
import { giveIdentity, writeAccountKubeconfig } from "../bed/identity.ts";
import { until } from "../bed/until.ts";
import { sharedCluster } from "../cluster/cluster.ts";
import { manifest, withFields } from "../fixtures/manifests.ts";
import { type TemporaryFolder, temporaryFolder } from "../fixtures/temporary-folder.ts";
import {
  api,
  core,
  get,
  hostPath,
  leasesPath,
  merge,
  OURS,
  post,
  put,
  type Request,
  rbac,
  remove,
} from "./requests.ts";

const GROUP = `thieves-${process.pid}`;
const OTHER = `others-${process.pid}`;
const HOST = `robbed-${process.pid}`;
const OWN = createJoinKey().publicKey;
const FOREIGN = createJoinKey().publicKey;
const DENIED = /^(forbidden|invalid): /;
const requests = `${OURS}/namespaces/${NAMESPACE_JOIN}/hostjoinrequests`;
const accounts = core("serviceaccounts", NAMESPACE_JOIN);

let folder: TemporaryFolder;
let thief: KubeConnection;

beforeAll(async () => {
  const { kubeconfig, objects } = sharedCluster();
  folder = await temporaryFolder();
  const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
  const policy: JoinGroup = { limit: 1, expiresAt, approve: "manual", addresses: [], namePattern: "*" };
  const account = (name: string) => ({
    apiVersion: "v1",
    kind: "ServiceAccount",
    ...joinAccount(name, policy),
  });
  await objects.apply(
    ...[...joinAccess(), account(GROUP), account(OTHER)],
    withFields(manifest("Host", HOST), { "spec.addresses": ["192.168.77.9"] }),
    request(FOREIGN, { group: OTHER }),
  );
  await giveIdentity({ kubeconfig }, HOST, path.join(folder.path, "host"));
  const file = path.join(folder.path, "kubeconfig");
  await writeAccountKubeconfig({ kubeconfig }, { name: GROUP, namespace: NAMESPACE_JOIN, file });
  thief = await connect({ kubeconfigPath: file });
  // Roles and policies hold a moment after they were created.
  await until(async () => {
    expect(await send(post(requests, request(OWN, { group: OTHER }, {}, createJoinKey().publicKey)))).toMatch(
      /to join its own group/,
    );
    expect(await send(post(requests, request(OWN)))).toMatch(/^ok$|already exists/);
  });
});

afterAll(async () => {
  thief.close();
  const { objects } = sharedCluster();
  const requests = [OWN, FOREIGN].map((name) => `hostjoinrequest/${name}`);
  await objects.remove(NAMESPACE_JOIN, ...requests, `serviceaccount/${GROUP}`, `serviceaccount/${OTHER}`);
  await objects.startRemoval("", `host/${HOST}`);
  await folder[Symbol.asyncDispose]();
});

function request(key: string, spec: object = {}, metadata: object = {}, name = key): object {
  return {
    apiVersion: API_VERSION,
    kind: "HostJoinRequest",
    metadata: { name, namespace: NAMESPACE_JOIN, ...metadata },
    spec: { hostName: "mac-1", group: GROUP, addresses: ["10.0.0.1"], ...spec },
  };
}

/** Creation of one more, which would be accepted but for what is named. */
function more(spec: object, metadata: object = {}): Request {
  return post(`${requests}?dryRun=All`, request(createJoinKey().publicKey, spec, metadata));
}

async function send(request: Request): Promise<string> {
  const answer = await thief.request({ ...request, timeoutMs: 10_000 });
  return answer.ok ? "ok" : `${answer.error.kind}: ${answer.error.message}`;
}

const long = (length: number) => "x".repeat(length);
const tokenOf = (place: string) =>
  post(`${place}/token`, {
    apiVersion: "authentication.k8s.io/v1",
    kind: "TokenRequest",
    spec: { expirationSeconds: 3_600 },
  });

const attacks: Readonly<Record<string, readonly (readonly [string, Request])[]>> = {
  "requests of others": [
    ["list", get(requests)],
    ["list of all namespaces", get(`${OURS}/hostjoinrequests`)],
    ["watch", get(`${requests}?watch=true`)],
    ["creation for another group", more({ group: OTHER })],
    ["deletion", remove(`${requests}/${FOREIGN}`)],
    ["deletion of all", remove(requests)],
    ["approval", merge(`${requests}/${FOREIGN}`, { spec: { approval: "Approved" } })],
    ["answer", merge(`${requests}/${FOREIGN}/status`, { status: { phase: "Admitted" } })],
    [
      "creation in the hosts' namespace",
      post(
        `${OURS}/namespaces/${NAMESPACE_HOSTS}/hostjoinrequests`,
        request(OWN, {}, { namespace: NAMESPACE_HOSTS }),
      ),
    ],
  ],
  "its own request": [
    ["approval", merge(`${requests}/${OWN}`, { spec: { approval: "Approved" } })],
    ["approval at creation", more({ approval: "Approved" })],
    ["a note at creation", more({ approvalNote: "please" })],
    ["another name afterwards", merge(`${requests}/${OWN}`, { spec: { hostName: "mac-2" } })],
    ["replacement", put(`${requests}/${OWN}`, request(OWN))],
    ["answer", merge(`${requests}/${OWN}/status`, { status: { phase: "Admitted" } })],
    ["deletion", remove(`${requests}/${OWN}`)],
    ["a name that is no key", post(requests, request("mac-1"))],
    ["a generated name", post(requests, request("", {}, { name: undefined, generateName: OWN.slice(5) }))],
  ],
  "the size of a request": [
    ["labels", more({}, { labels: { a: "b" } })],
    ["annotations", more({}, { annotations: { a: long(1_000) } })],
    ["finalizers", more({}, { finalizers: ["example.com/a"] })],
    ["an owner", more({}, { ownerReferences: [{ apiVersion: "v1", kind: "Secret", name: "a", uid: "b" }] })],
    [
      "forged managedFields",
      more(
        {},
        {
          managedFields: [
            {
              manager: "m",
              operation: "Update",
              apiVersion: API_VERSION,
              fieldsType: "FieldsV1",
              time: "2026-03-01T12:00:00Z",
              fieldsV1: { [`f:${long(40)}`]: {} },
            },
          ],
        },
      ),
    ],
    ["a long name", more({ hostName: long(64) })],
    ["a long machine", more({ machine: long(129) })],
    ["a long id", more({ machineId: long(129) })],
    ["control characters", more({ machine: "\u001b[2J" })],
    ["five addresses", more({ addresses: ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"] })],
    ["no address", more({ addresses: [] })],
    ["a network", more({ addresses: ["10.0.0.0/8"] })],
    ["a loopback address", more({ addresses: ["127.0.0.1"] })],
  ],
  "hosts and tokens": [
    ["list of Hosts", get(`${OURS}/hosts`)],
    ["a Host", get(hostPath(HOST))],
    ["creation of a Host", post(`${OURS}/hosts`, manifest("Host", "stolen"))],
    ["status of a Host", merge(`${hostPath(HOST)}/status`, { status: { addresses: [] } })],
    ["Secrets of hosts", get(core("secrets", NAMESPACE_HOSTS))],
    ["accounts of hosts", get(core("serviceaccounts", NAMESPACE_HOSTS))],
    ["a token of a host", tokenOf(core(`serviceaccounts/${HOST}`, NAMESPACE_HOSTS))],
    ["a token of another group", tokenOf(`${accounts}/${OTHER}`)],
    ["a longer token of its own", tokenOf(`${accounts}/${GROUP}`)],
    ["Leases", get(leasesPath())],
    ["replicas", get(`${OURS}/inferencereplicas`)],
  ],
  "its own group": [
    ["a higher limit", merge(`${accounts}/${GROUP}`, { metadata: { annotations: {} } })],
    ["its limit", get(`${accounts}/${GROUP}`)],
    ["another group", post(accounts, { metadata: { name: "mine" } })],
    ["the quota", merge(core("resourcequotas/metalbridge-join", NAMESPACE_JOIN), { spec: { hard: {} } })],
    ["its role", merge(rbac(`namespaces/${NAMESPACE_JOIN}/roles/metalbridge-join`), { rules: [] })],
    [
      "a binding",
      post(rbac("clusterrolebindings"), {
        metadata: { name: "mine" },
        roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "metalbridge-agent" },
      }),
    ],
    [
      "a certificate",
      post(`${api("certificates.k8s.io")}/certificatesigningrequests`, {
        metadata: { name: "mine" },
        spec: { request: "", signerName: "a.b/c", usages: [] },
      }),
    ],
  ],
};

for (const [about, rows] of Object.entries(attacks)) {
  describe(`the token of a group and ${about}`, () => {
    test.each(rows)("%s: denied", async (_, request) => {
      expect(await send(request)).toMatch(DENIED);
    });
  });
}

describe("an honest machine does all it needs to", () => {
  test.each<readonly [string, Request]>([
    ["a request", more({ machineId: long(128), machine: long(128), hostName: long(63) })],
    ["four addresses", more({ addresses: ["10.0.0.1", "fd00::1", "10.0.0.3", "10.0.0.4"] })],
    ["its answer", get(`${requests}/${OWN}`)],
  ])("%s: allowed", async (_, request) => {
    expect(await send(request)).toBe("ok");
  });

  test("a status at its creation is dropped", async () => {
    const key = createJoinKey().publicKey;
    const forged = { ...request(key), status: { phase: "Admitted" } };
    const answer = await thief.request({ ...post(`${requests}?dryRun=All`, forged), timeoutMs: 10_000 });
    expect(JSON.parse(answer.ok ? answer.value : "{}")).toMatchObject({ metadata: { name: key } });
    expect(answer.ok && JSON.parse(answer.value)).not.toHaveProperty("status");
  });
});
