/** Turns a service's load on once the service answers: after its creation, and again after each new one. */
import type { FaultContext } from "../faults/fault.ts";
import type { ServiceName } from "../plan/catalog.ts";

const LOOK_MS = 500;
/** kube-proxy follows within its sync period; a connection refused before that is no defect. */
const PROPAGATION_MS = 4_000;

export function keepLoadOn(context: FaultContext): () => void {
  const { bed, cluster, load, recorder } = context;
  const loaded = new Map<ServiceName, string>();
  const readySince = new Map<string, number>();
  const look = async (name: ServiceName): Promise<void> => {
    const service = cluster.services.get(`default/${name}`);
    const uid = service?.metadata.uid;
    if (service === undefined || uid === undefined || service.metadata.deletionTimestamp !== undefined) {
      loaded.delete(name);
      return;
    }
    if (loaded.get(name) === uid) return;
    if (service.status?.phase !== "Ready") return void readySince.delete(uid);
    const since = readySince.get(uid) ?? recorder.now();
    readySince.set(uid, since);
    if (recorder.now() - since < PROPAGATION_MS) return;
    const address = await bed.objects.addressOf(name);
    if (address === undefined) return;
    loaded.set(name, uid);
    load.begin(name, `http://${address}:8080`);
  };
  const timer = setInterval(() => {
    for (const name of bed.services) look(name).catch(() => {});
  }, LOOK_MS);
  return () => clearInterval(timer);
}
