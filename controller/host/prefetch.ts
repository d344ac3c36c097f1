/** Writes the Models that a host must prefetch to its status, like the volumes in a Node's status for its kubelet. */
import { MANAGER_PREFETCH } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import { keyOf } from "../../src/api/names.ts";
import { prefetchOrders } from "../../src/capacity/prefetch.ts";
import { isDeepEqual } from "../../src/util/deep-equal.ts";
import { isSettled } from "../service/apply/failure.ts";
import type { ControllerPorts } from "../watches/ports.ts";

/** Returns false if another client wrote first. Uses a separate field manager, because the conditions are applied separately. */
export async function writePrefetch({ client, watches, log }: ControllerPorts, host: Host): Promise<boolean> {
  const orders = prefetchOrders(host, watches.prefetchedModels.of("all"));
  if (isDeepEqual(orders, host.status?.prefetch?.wanted ?? [])) return true;
  const { name } = host.metadata;
  const status = orders.length === 0 ? {} : { prefetch: { wanted: orders } };
  const result = await client.apply(HOSTS, { metadata: { name }, status } as Host, {
    manager: MANAGER_PREFETCH,
    subresource: "status",
    current: host,
  });
  if (result.ok) {
    log.info({ host: name, models: orders.map(keyOf) }, "prefetch of a host set");
  }
  return isSettled(`write the prefetch of Host ${name}`, result);
}
