import { expect, test } from "vitest";
import { INFERENCE_SERVICES, MODELS } from "../../../src/api/kinds.ts";
import { connect } from "../../../src/kube/client/connect.ts";
import { createClient } from "../../../src/kube/client/create-client.ts";
import { startCluster } from "../../cluster/cluster.ts";
import { fleetObjects } from "./fleet-objects.ts";
import type { ModelServer } from "./models.ts";

test("of two that make a service again the first is enough, and a service whose model is unknown is not deleted", async () => {
  await using cluster = await startCluster();
  const connection = await connect({ kubeconfigPath: cluster.kubeconfig });
  const client = createClient(connection);
  const urlOf = (name: string) => `https://models.example/${name}.gguf`;
  const objects = fleetObjects(client, { urlOf } as unknown as ModelServer, "llamacpp");
  await objects.createService("brief", 1);
  await objects.createService("brief", 2);
  const models = await client.list(MODELS, { namespace: "default" });
  expect(models.ok && models.value.items.map(({ metadata }) => metadata.name)).toEqual(["brief-1"]);

  // While the API server does not answer, nothing is deleted whose model would stay.
  const get = async () => ({ ok: false, error: { kind: "unreachable", status: 0, message: "away" } });
  const unread = { ...client, get } as unknown as typeof client;
  const blind = fleetObjects(unread, { urlOf } as unknown as ModelServer, "llamacpp");
  await expect(blind.deleteService("brief")).rejects.toThrow("away");
  const services = await client.list(INFERENCE_SERVICES, { namespace: "default" });
  expect(services.ok && services.value.items).toHaveLength(1);
  connection.close();
});
