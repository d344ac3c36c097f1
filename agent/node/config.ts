/** The settings of `metalbridge node`: checked once, at the start, and read-only from then on. */
import { homedir, hostname } from "node:os";
import { isAbsolute } from "node:path";
import { z } from "zod";
import { NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { parseSettings } from "../../src/api/settings.ts";
import { isLoopback } from "../../src/http/loopback.ts";
import { parseAddress } from "../engines/driver/http.ts";
import { rootsUnder } from "../host/linux/roots.ts";
import type { InstalledPlaces } from "../inventory/installed.ts";
import type { NodeReaderOptions } from "./read.ts";

const text = (description: string) => z.string().min(1).describe(description).optional();
const folder = z.string().refine(isAbsolute, "needs an absolute path");

export const nodeConfigSchema = z
  .strictObject({
    kubeconfig: text(
      "Kubeconfig of the cluster. Default: KUBECONFIG, then ~/.kube/config, then the pod's ServiceAccount.",
    ),
    context: text("Context of the kubeconfig."),
    nodeName: text("Name of this machine's Node object. Default: the host name in lower case."),
    namespace: z
      .string()
      .min(1)
      .default(NAMESPACE_SYSTEM)
      .describe("Namespace of the ConfigMap `metalbridge-node-NODE` in which the report is published."),
    hostRoot: folder
      .default("/")
      .describe(
        "Folder that contains proc, sys, dev and run/udev of the machine. In a pod, this is the mount point /host.",
      ),
    modelFolder: z
      .array(folder)
      .default([])
      .describe(
        "Additional folders with models: an Ollama folder (with manifests), a Hugging Face cache, or any folder with GGUF, safetensors or npz files.",
      ),
    ollama: z
      .string()
      .regex(/^\S+:\d{1,5}$/, "needs HOST:PORT")
      .describe(
        "Address of this machine's Ollama server. Default: 127.0.0.1:11434. In a pod, Ollama is not queried unless this is set.",
      )
      .optional(),
    interval: z.coerce
      .number()
      .int()
      .min(5)
      .max(3_600)
      .default(30)
      .describe(
        "Interval in seconds at which the machine is read again. Added or removed devices trigger a read immediately.",
      ),
    flexinferMetricNames: z
      .boolean()
      .default(false)
      .describe("Also export the temperature of GPUs under its name in FlexInfer, for existing dashboards."),
    metricsPort: z.coerce
      .number()
      .int()
      .min(0)
      .max(65_535)
      .describe("Port of /metrics, /healthz and /readyz. 0 selects a free port. If unset, nothing is served.")
      .optional(),
    metricsAddress: z
      .union([z.ipv4(), z.ipv6()], { error: "must be an IP address" })
      .default("127.0.0.1")
      .describe("Address of /metrics, /healthz and /readyz."),
    llmfitPort: z.coerce
      .number()
      .int()
      .min(0)
      .max(65_535)
      .describe("Port of llmfit's REST API. 0 selects a free port. If unset, the API is disabled.")
      .optional(),
    llmfitAddress: z
      .union([z.ipv4(), z.ipv6()], { error: "must be an IP address" })
      .default("127.0.0.1")
      .describe("Address of the API. Any address other than loopback requires llmfitTokenFile."),
    llmfitTokenFile: text("File with the bearer token that the API requires, read on each request."),
  })
  .refine(
    ({ llmfitAddress, llmfitTokenFile }) => llmfitTokenFile !== undefined || isLoopback(llmfitAddress),
    {
      path: ["llmfitTokenFile"],
      message: "is required with an address that is not loopback",
    },
  );

export type NodeConfig = Readonly<z.output<typeof nodeConfigSchema>>;

/** Throws MetalbridgeError that names the key. */
export function parseNodeConfig(input: unknown): NodeConfig {
  return parseSettings(nodeConfigSchema, input, "NodeConfigInvalid");
}

/** The name that kubelet gives the node of a host. */
export function nodeNameOf({ nodeName }: NodeConfig, host = hostname()): string {
  return nodeName ?? host.toLowerCase();
}

const OLLAMA = "127.0.0.1:11434";
/** The home folder of the service that Ollama's installer creates. */
const OLLAMA_HOME = "/usr/share/ollama";

/** The paths to read on this machine. In a pod, home folders and loopback are those of the pod, and are not read. */
export function nodeReaderPaths({ hostRoot, modelFolder, ollama }: NodeConfig): {
  readonly roots: NodeReaderOptions["roots"];
  readonly installed: InstalledPlaces;
} {
  const roots = rootsUnder(hostRoot);
  const address = ollama ?? (roots.isOwn ? OLLAMA : undefined);
  return {
    roots,
    installed: {
      homes: roots.isOwn ? [homedir(), OLLAMA_HOME] : [],
      folders: modelFolder,
      proc: roots.proc,
      ollama: address === undefined ? undefined : parseAddress(address),
    },
  };
}
