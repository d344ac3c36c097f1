import { expect, test } from "vitest";
import { MODELS } from "../../../src/api/kinds.ts";
import { connect } from "../../../src/kube/client/connect.ts";
import { createClient } from "../../../src/kube/client/create-client.ts";
import { startCluster } from "../../cluster/cluster.ts";
import { fleetObjects } from "./fleet-objects.ts";
import type { ModelServer } from "./models.ts";

test("of two that make a service again the first is enough, and the other makes nothing once it is deleted", async () => {
  await using cluster = await startCluster();
  const connection = await connect({ kubeconfigPath: cluster.kubeconfig });
  const client = createClient(connection);
  const urlOf = (name: string) => `https://models.example/${name}.gguf`;
  const objects = fleetObjects(client, { urlOf } as unknown as ModelServer, "llamacpp");
  await objects.createService("brief", 1);
  await objects.createService("brief", 2);
  const models = await client.list(MODELS, { namespace: "default" });
  expect(models.ok && models.value.items.map(({ metadata }) => metadata.name)).toEqual(["brief-1"]);
  connection.close();
});
