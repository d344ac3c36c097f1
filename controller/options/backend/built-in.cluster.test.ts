import { expect, test } from "vitest";
import { API_VERSION } from "../../../src/api/group.ts";
import { BACKEND_RUNTIMES } from "../../../src/api/kinds.ts";
import { builtInBackends } from "../../../src/engines/built-in-backends.ts";
import { connect } from "../../../src/kube/client/connect.ts";
import { createClient } from "../../../src/kube/client/create-client.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";
import { must } from "../../../test/bed/must.ts";
import { oneCluster } from "../../../test/cluster/cluster.ts";
import { quietLog } from "../../../test/cluster/quiet-log.ts";
import { publishBuiltInBackends } from "./option.ts";

const cluster = oneCluster();

test("built-in BackendRuntimes are listed, restored once edited, and leave a user's object of the same name alone", async () => {
  const { kubeconfig, kubectl, objects } = cluster();
  const connection = await connect({ kubeconfigPath: kubeconfig });
  const client = createClient(connection);
  const { signal } = new AbortController();
  const publish = () => publishBuiltInBackends({ client, clock: systemClock, log: quietLog, signal });
  const versions = async () => {
    const { items } = must(await client.list(BACKEND_RUNTIMES));
    return Object.fromEntries(items.map(({ metadata }) => [metadata.name, metadata.resourceVersion]));
  };
  try {
    await objects.apply(OWN);
    await publish();
    const lines = (await kubectl(["get", "br", "--no-headers"])).trim().split("\n");
    const names = builtInBackends().map(({ metadata }) => metadata.name);
    expect(lines.map((line) => line.split(/\s+/)[0])).toEqual(names.toSorted());
    expect(lines.find((line) => line.startsWith("sglang"))).toMatch(/^sglang\s+generic\s+registry\.example/);
    const first = await versions();
    await publish();
    expect(await versions()).toEqual(first);
    await objects.patch("", "br/vllm", { spec: { port: 9 } });
    await publish();
    expect((await objects.get("", "br/vllm")).spec.port).toBe(8000);
  } finally {
    connection.close();
  }
});

const OWN = {
  apiVersion: API_VERSION,
  kind: "BackendRuntime",
  metadata: { name: "sglang" },
  spec: { image: "registry.example/sglang:own" },
};
