/** What a host that has proved its key may still do to its user: answer late, or never end. */
import type { ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { createPeerIdentity } from "../../../agent/peers/identity.ts";
import { oneCluster } from "../../../test/cluster/cluster.ts";
import { DOCTOR_ACCOUNT } from "../../api/access/remote.ts";
import { NAMESPACE_SYSTEM } from "../../api/group.ts";
import { hostSchema } from "../../api/host.ts";
import { connect } from "../client/connect.ts";
import { createClient } from "../client/create-client.ts";
import { SERVICE_ACCOUNTS } from "../kinds.ts";
import { requestHost } from "./request.ts";

const own = oneCluster();
const account = { name: DOCTOR_ACCOUNT, namespace: NAMESPACE_SYSTEM };

async function hostThat(responses: (response: ServerResponse) => unknown) {
  const { key, cert, fingerprint } = createPeerIdentity("mac-1");
  const server = createServer(
    { key, cert, minVersion: "TLSv1.3" },
    (_, response) => void responses(response),
  );
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return hostSchema.parse({
    metadata: { name: "mac-1" },
    spec: { addresses: ["127.0.0.1"] },
    status: { addresses: ["127.0.0.1"], remote: { fingerprint, port, logs: true, doctor: true } },
  });
}

test.each<[string, (response: ServerResponse) => unknown, object]>([
  [
    "does not answer",
    () => undefined,
    { code: "RemoteHostUnreachable", message: "host mac-1 sent no response: none within 0.3 s" },
  ],
  [
    "begins a refusal and does not end it",
    (response) => response.writeHead(403).write('{"message":'),
    { code: "RemoteRequestRefused", message: "host mac-1: no reason given (403)" },
  ],
])("requestHost does not wait for a host that %s", async (_, responses, error) => {
  const host = await hostThat(responses);
  const connection = await connect({ kubeconfigPath: own().kubeconfig });
  onTestFinished(() => connection.close());
  await createClient(connection).create(SERVICE_ACCOUNTS, { metadata: account });
  const response = requestHost({
    connection,
    host,
    account,
    direct: true,
    path: "/v1/doctor",
    role: "metalbridge-host-doctor",
    timeoutMs: 300,
    signal: new AbortController().signal,
  });
  await expect(response).rejects.toMatchObject(error);
});
