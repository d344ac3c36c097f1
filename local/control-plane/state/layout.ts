/** Names of everything a control plane keeps in its folder. */
import path from "node:path";

export interface ControlPlaneLayout {
  readonly dir: string;
  readonly kubeconfig: string;
  readonly settings: string;
  readonly etcdData: string;
  readonly secrets: string;
  readonly tokens: string;
  readonly adminToken: string;
  readonly serviceAccountKey: string;
  readonly serviceAccountPublicKey: string;
  readonly controllerManagerKubeconfig: string;
  readonly schedulerKubeconfig: string;
  readonly runs: string;
  /**
   * Working folder of one run's programs: their sockets have short relative names here, however long `dir` is.
   * New for each run, because a late etcd of a killed run removes its socket by name when it ends.
   */
  readonly run: string;
  readonly logs: string;
  /** Serving certificates by address, since a certificate is good for one address only. */
  readonly certificates: (address: string) => string;
  readonly log: (part: string) => string;
}

/** Pure: joins names, touches nothing. */
export function controlPlaneLayoutOf(dir: string, runName = "run"): ControlPlaneLayout {
  const root = path.resolve(dir);
  const at = (...names: string[]) => path.join(root, ...names);
  return {
    dir: root,
    kubeconfig: at("kubeconfig"),
    settings: at("control-plane.json"),
    etcdData: at("etcd"),
    secrets: at("pki"),
    tokens: at("pki", "tokens.csv"),
    adminToken: at("pki", "admin.token"),
    serviceAccountKey: at("pki", "service-account.key"),
    serviceAccountPublicKey: at("pki", "service-account.pub"),
    controllerManagerKubeconfig: at("pki", "kube-controller-manager.kubeconfig"),
    schedulerKubeconfig: at("pki", "kube-scheduler.kubeconfig"),
    runs: at("run"),
    run: at("run", runName),
    logs: at("logs"),
    certificates: (address) => at("pki", `serving-${address.replaceAll(":", "_")}`),
    log: (part) => at("logs", `${part}.log`),
  };
}
