/**
 * What each identity tries and what the real API server answers: whoever holds the credential of a host, people with rights
 * in one namespace, those who run hosts. What is allowed by design has its reason in docs/security.md.
 */
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ACCOUNT_PREFIX, HOST_TOKEN_SECONDS } from "../../src/api/access/account.ts";
import {
  FINALIZER_ENGINE,
  LABEL_HOST,
  LABEL_SERVICE_NAME,
  LABEL_SLICE_MANAGED_BY,
  NAMESPACE_HOSTS,
  NAMESPACE_SYSTEM,
  SLICE_MANAGED_BY,
} from "../../src/api/group.ts";
import { connect, type KubeConnection } from "../../src/kube/client/connect.ts";
import { giveIdentity } from "../bed/identity.ts";
import { until } from "../bed/until.ts";
import { sharedCluster } from "../cluster/cluster.ts";
import { manifest, withFields } from "../fixtures/manifests.ts";
import { type TemporaryFolder, temporaryFolder } from "../fixtures/temporary-folder.ts";
import { attacksElsewhere } from "./attacks-elsewhere.ts";
import { attacksOnOwnKinds } from "./attacks-on-own-kinds.ts";
import { users } from "./attempts-of-users.ts";
import { attacksOnEvents, leaseWithStrategy, limits } from "./attempts-on-events.ts";
import {
  EVIL,
  endpoints,
  eventOf,
  eventsPath,
  FOREIGN_FINALIZER,
  get,
  hostPath,
  lease,
  leasesPath,
  merge,
  NAMESPACE,
  OURS,
  OWN_ADDRESS,
  OWN_NET_ADDRESS,
  post,
  type Request,
  replicaPath,
  slice,
  slicePath,
  TAKEN_BACK,
  token,
  VICTIM,
} from "./requests.ts";
import { asUsers, type UserConnections } from "./users.ts";

/** By roles and policies, else by the schema, which the server checks first. */
const DENIED =
  /^(forbidden: |invalid: (?!.*must be specified for an update).*(is immutable|Too long|Too many|should match|must be|at most|supported values|invalid value|needs to be unset))/s;

let folder: TemporaryFolder;
let evil: KubeConnection;
let people: UserConnections<keyof typeof users>;
let admin: KubeConnection;

beforeAll(async () => {
  const cluster = sharedCluster();
  await cluster.objects.createNamespace(NAMESPACE);
  folder = await temporaryFolder();
  admin = await connect({ kubeconfigPath: cluster.kubeconfig });
  const replica = (name: string, host: string) =>
    withFields(manifest("InferenceReplica", name, NAMESPACE), {
      "spec.template.hostName": host,
      "metadata.finalizers": [FOREIGN_FINALIZER, FINALIZER_ENGINE],
      "metadata.labels": { [LABEL_HOST]: host },
      "metadata.annotations": { a: "b" },
    });
  const foreign = { labels: { [LABEL_SERVICE_NAME]: "web" } };
  const items = [
    ...[EVIL, VICTIM].flatMap((host) => [
      withFields(manifest("Host", host), { "spec.addresses": [OWN_ADDRESS] }),
      lease(host),
    ]),
    ...[replica("mine", EVIL), replica("mine-deleted", EVIL), replica("theirs", VICTIM)],
    slice("mine", EVIL, OWN_ADDRESS),
    slice("mine-taken-back", EVIL, TAKEN_BACK),
    slice("theirs", VICTIM, OWN_ADDRESS),
    slice("of-kubernetes", EVIL, OWN_ADDRESS, {
      metadata: {
        name: "of-kubernetes",
        namespace: NAMESPACE,
        labels: { [LABEL_HOST]: EVIL, ...foreign.labels, [LABEL_SLICE_MANAGED_BY]: "other" },
      },
    }),
    slice("without-addresses", EVIL, OWN_ADDRESS, {
      metadata: {
        name: "without-addresses",
        namespace: NAMESPACE,
        labels: { [LABEL_HOST]: EVIL, [LABEL_SLICE_MANAGED_BY]: SLICE_MANAGED_BY },
      },
      endpoints: [],
    }),
    { apiVersion: "v1", kind: "Secret", metadata: { name: "keys", namespace: NAMESPACE } },
    { apiVersion: "v1", kind: "Secret", metadata: { name: "own", namespace: NAMESPACE } },
    withFields(manifest("Model", "tiny", NAMESPACE), {}),
    withFields(manifest("Model", "gated", NAMESPACE), { "spec.sourceSecretRef": { name: "keys" } }),
    withFields(manifest("InferenceService", "chat", NAMESPACE), {}),
  ];
  for (const item of items) await cluster.objects.create(item);
  await cluster.objects.startRemoval(NAMESPACE, "irep/mine-deleted");
  const file = path.join(folder.path, "kubeconfig");
  await giveIdentity(cluster, VICTIM, path.join(folder.path, "victim"));
  await giveIdentity(cluster, EVIL, file);
  evil = await connect({ kubeconfigPath: file });
  people = await asUsers(cluster, folder.path);
  // Roles, bindings and policies hold a moment after they were created.
  await until(async () => {
    expect(await send(merge(`${hostPath(EVIL)}/status`, { status: { addresses: [] } }))).toBe("ok");
    expect(await send(get(`${leasesPath()}/${EVIL}`))).toBe("ok");
    expect(await send(merge(`${hostPath(VICTIM)}/status`, { status: { addresses: [] } }))).toMatch(
      /may write/,
    );
  });
});

afterAll(async () => {
  evil.close();
  people.close();
  admin.close();
  const { objects } = sharedCluster();
  for (const name of ["mine", "mine-deleted", "theirs"])
    await objects.patch(NAMESPACE, `irep/${name}`, { metadata: { finalizers: null } }).catch(() => {});
  for (const name of [EVIL, VICTIM]) {
    await objects.startRemoval("", `host/${name}`);
    await objects.remove(NAMESPACE_HOSTS, `lease/${name}`, `serviceaccount/${name}`);
  }
  await objects.remove("", `clusterrole/ours-${process.pid}`, `clusterrolebinding/${NAMESPACE}-operator`);
  await objects.startRemoval("", `namespace/${NAMESPACE}`);
  await folder[Symbol.asyncDispose]();
});

/** `ok`, or kind and sentence of the failure. */
async function send(request: Request, by: KubeConnection = evil): Promise<string> {
  const answer = await by.request({ ...(await ofThisVersion(request)), timeoutMs: 10_000 });
  return answer.ok ? "ok" : `${answer.error.kind}: ${answer.error.message}`;
}

/** An update has to name the version that it replaces: without it, the server refuses it whatever it changes. */
async function ofThisVersion(request: Request): Promise<Request> {
  if (request.method !== "PUT") return request;
  const [path = ""] = request.path.split("?");
  const there = await admin.request({ ...get(path), timeoutMs: 10_000 });
  const body = JSON.parse(request.body ?? "");
  const { resourceVersion } = JSON.parse(there.ok ? there.value : "{}").metadata;
  return { ...request, body: JSON.stringify({ ...body, metadata: { ...body.metadata, resourceVersion } }) };
}

const groups = { ...attacksOnOwnKinds, ...attacksOnEvents, ...attacksElsewhere };

for (const [about, attacks] of Object.entries(groups)) {
  describe(`a compromised host and ${about}`, () => {
    test.each(attacks)("%s: denied", async (_, request) => {
      expect(await send(request)).toMatch(DENIED);
    });
  });
}

/** Nothing of it stays. */
const dry = (request: Request): Request => ({
  ...request,
  path: `${request.path}${request.path.includes("?") ? "&" : "?"}dryRun=All`,
});

describe("a compromised host and sizes", () => {
  test.each(limits)("%s: up to %i", async (_, limit, request) => {
    for (const size of [limit - 1, limit]) expect(await send(dry(request(size)))).toBe("ok");
    for (const size of [limit + 1, limit * 2]) expect(await send(dry(request(size)))).toMatch(DENIED);
  });
});

for (const who of Object.keys(users) as (keyof typeof users)[]) {
  describe(who, () => {
    test.each<readonly [string, Request]>(users[who].denied)("%s: denied", async (_, request) => {
      expect(await send(dry(request), people.of(who))).toMatch(/^forbidden: /);
    });
    test.each<readonly [string, Request]>(users[who].allowed)("%s: allowed", async (_, request) => {
      expect(await send(dry(request), people.of(who))).toBe("ok");
    });
  });
}

test("a refusal says what to do", async () => {
  const image = { spec: { image: "evil.example.com/root:1" } };
  const path = `${OURS}/namespaces/${NAMESPACE}/inferenceservices/chat`;
  const tenant = people.of("a tenant with our kinds only");
  expect(await send(dry(merge(path, image)), tenant)).toMatch(
    /spec\.image: .*require the right to create pods in namespace attacked-\d+: remove them, or ask for that right/,
  );
});

test("at least 150 attempts are tried", () => {
  const ofUsers = Object.values(users).flatMap(({ denied, allowed }) => [...denied, ...allowed]);
  expect(Object.values(groups).flat().length + ofUsers.length).toBeGreaterThanOrEqual(150);
});

test("a compromised host's Lease gets no strategy", async () => {
  const answer = await evil.request({ ...(await ofThisVersion(leaseWithStrategy)), timeoutMs: 10_000 });
  if (answer.ok) expect(JSON.parse(answer.value).spec).not.toHaveProperty("strategy");
  else expect(answer.error.message).toContain("no strategy");
});

describe("a compromised host and impersonation", () => {
  test.each([
    ["a cluster administrator", ["--as=admin", "--as-group=system:masters"]],
    ["the controller", [`--as=system:serviceaccount:${NAMESPACE_SYSTEM}:metalbridge-controller`]],
    ["another host", [`--as=${ACCOUNT_PREFIX}${VICTIM}`]],
  ])("%s: denied", async (_, as) => {
    const kubeconfig = path.join(folder.path, "kubeconfig");
    const attempt = ["get", "--raw", hostPath(VICTIM), `--kubeconfig=${kubeconfig}`, ...as];
    await expect(sharedCluster().kubectl(attempt)).rejects.toThrow(/Forbidden/);
  });
});

describe("an honest host does all it needs to", () => {
  test.each<readonly [string, Request]>([
    ["the status of its Host", merge(`${hostPath(EVIL)}/status`, { status: { addresses: [OWN_ADDRESS] } })],
    ["the status of its replicas", merge(`${replicaPath("mine")}/status`, { status: { phase: "Ready" } })],
    ["its address", merge(slicePath("mine"), endpoints(OWN_ADDRESS))],
    ["an address of its network", merge(slicePath("mine"), endpoints(OWN_NET_ADDRESS))],
    [
      "its withdrawal",
      merge(
        slicePath("mine"),
        endpoints(OWN_NET_ADDRESS, { conditions: { ready: false, serving: false, terminating: true } }),
      ),
    ],
    ["an empty slice", merge(slicePath("mine"), { endpoints: [], ports: [] })],
    [
      "withdrawal of an address that was taken back",
      merge(
        slicePath("mine-taken-back"),
        endpoints(TAKEN_BACK, { conditions: { ready: false, serving: false, terminating: true } }),
      ),
    ],
    [
      "the finalizer of a deleted replica",
      merge(replicaPath("mine-deleted"), { metadata: { finalizers: [FOREIGN_FINALIZER] } }),
    ],
    ["an Event in its own name", post(eventsPath(), eventOf(EVIL))],
    [
      "an Event about its Host",
      post(
        eventsPath("default"),
        eventOf(
          EVIL,
          { regarding: { apiVersion: "metalbridge.dev/v1alpha1", kind: "Host", name: EVIL } },
          { namespace: "default" },
        ),
      ),
    ],
    ["its token's renewal", token(EVIL, HOST_TOKEN_SECONDS)],
    ["replicas, which every host may read", get(replicaPath("theirs"))],
  ])("%s: allowed", async (_, request) => {
    expect(await send(request)).toBe("ok");
  });

  test("a status write changes nothing but status", async () => {
    const sneaky = {
      metadata: { labels: { a: "b" }, finalizers: null },
      spec: { priority: "critical" },
      status: { phase: "Ready" },
    };
    expect(await send(merge(`${replicaPath("mine")}/status`, sneaky))).toBe("ok");
    const answer = await admin.request({ ...get(replicaPath("mine")), timeoutMs: 10_000 });
    const { metadata, spec } = JSON.parse(answer.ok ? answer.value : "{}");
    expect(metadata).toMatchObject({
      finalizers: [FOREIGN_FINALIZER, FINALIZER_ENGINE],
      labels: { [LABEL_HOST]: EVIL },
    });
    expect(metadata.labels).not.toHaveProperty("a");
    expect(spec.priority).not.toBe("critical");
  });
});
