/** Paths of all files in the folder of a control plane. */
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
  readonly schedulerConfig: string;
  readonly runs: string;
  /**
   * Working folder of the programs of one run. Their sockets have short relative names, independent of the length of `dir`.
   * Each run has a new folder, because an etcd of a killed run removes its socket by name when it exits late.
   */
  readonly run: string;
  readonly logs: string;
  /** Folder of the serving certificate for an address. */
  readonly certificates: (address: string) => string;
  readonly log: (part: string) => string;
}

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
    schedulerConfig: at("kube-scheduler.json"),
    runs: at("run"),
    run: at("run", runName),
    logs: at("logs"),
    certificates: (address) => at("pki", `serving-${address.replaceAll(":", "_")}`),
    log: (part) => at("logs", `${part}.log`),
  };
}
