/** Tokens of Kubernetes, reviewed by the real API server. */
import { expect, test, vi } from "vitest";
import { connect } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS } from "../../src/kube/kinds.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { issueToken } from "../../src/kube/token.ts";
import { must } from "../../test/bed/must.ts";
import { sharedCluster } from "../../test/cluster/cluster.ts";
import { createUsers } from "./users.ts";

const within = { timeout: 60_000, interval: 200 };

test("a user may use the services that RBAC names, and a made-up token is a stranger's", async () => {
  const cluster = sharedCluster();
  await using namespace = await cluster.namespace();
  const connection = await connect({ kubeconfigPath: cluster.kubeconfig });
  try {
    const client = createClient(connection);
    const account = { name: "ada", namespace: namespace.name };
    must(await client.create(SERVICE_ACCOUNTS, { metadata: account }));
    const { token } = must(await issueToken(connection, { account, seconds: 3_600 }));
    const identify = createUsers({ client, clock: systemClock, limits: { requestsPerMinute: 60 } });
    expect((await identify("made.up.token")).at).toBe("stranger");
    const user = await identify(token);
    if (user.at !== "user") throw new Error(user.at);
    const id = `user:system:serviceaccount:${namespace.name}:ada`;
    expect(user.caller).toMatchObject({ id, limits: { requestsPerMinute: 60 }, priority: "normal" });
    const may = (name: string, place = namespace.name) =>
      user.caller.mayUse({ namespace: place, name, names: [] });
    expect(await may("chat")).toBe("forbidden");

    const metadata = { name: "use", namespace: namespace.name };
    const right = { apiGroups: ["metalbridge.dev"], resources: ["inferenceservices/use"], verbs: ["use"] };
    must(await client.create(ROLES, { metadata, rules: [{ ...right, resourceNames: ["chat"] }] }));
    const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "use" };
    const subjects = [{ kind: "ServiceAccount", ...account }];
    must(await client.create(ROLE_BINDINGS, { metadata, roleRef, subjects }));
    await vi.waitFor(async () => expect(await may("chat")).toBe("allowed"), within);
    expect(await may("other")).toBe("forbidden");
    expect(await may("chat", "default")).toBe("forbidden");
  } finally {
    connection.close();
  }
});
