/** Writes what a host is to fetch for Models with spec.prefetch, in its status: as the volumes of a Node are in its status for its kubelet. */
import { MANAGER_PREFETCH } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import { prefetchOrders } from "../../src/capacity/prefetch.ts";
import { isDeepEqual } from "../../src/util/deep-equal.ts";
import { ApiCallFailed } from "../service/apply/failure.ts";
import type { ControllerPorts } from "../watches/ports.ts";

/** False where another client wrote first. A manager of its own: the conditions are applied on their own. */
export async function writePrefetch({ client, watches, log }: ControllerPorts, host: Host): Promise<boolean> {
  const wanted = prefetchOrders(host, watches.prefetchedModels.of("all"));
  if (isDeepEqual(wanted, host.status?.prefetch?.wanted ?? [])) return true;
  const { name } = host.metadata;
  const status = wanted.length === 0 ? {} : { prefetch: { wanted } };
  const result = await client.apply(HOSTS, { metadata: { name }, status } as Host, {
    manager: MANAGER_PREFETCH,
    subresource: "status",
    current: host,
  });
  if (result.ok) {
    log.info(
      { host: name, models: wanted.map((one) => `${one.namespace}/${one.name}`) },
      "prefetch of a host set",
    );
    return true;
  }
  if (result.error.kind === "notFound") return true;
  if (result.error.kind === "conflict") return false;
  throw new ApiCallFailed(`write the prefetch of Host ${name}`, result.error);
}
