/** Texts of the pages of models. */
export const modelsText = {
  ready: (ready: number, all: number) => `${ready} of ${all} ready`,
  filter: "Filter by name, source or format",
  empty: "No models yet",
  emptyWhy:
    "A Model names the weights that services use. Deploying a model creates one; its downloads, copies and benchmarks appear here.",
  emptyCommand: "metalbridge deploy hf://ggml-org/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf --name qwen3",
  columns: {
    name: "Name",
    namespace: "Namespace",
    state: "State",
    source: "Source",
    format: "Format",
    quantization: "Quantization",
    size: "Size",
    copies: "Copies",
    downloads: "Downloads",
    services: "Services",
    benchmarks: "Benchmarks",
  },
  gone: (name: string) => `Model ${name}`,
  facts: {
    source: "Source",
    format: "Format",
    quantization: "Quantization",
    size: "Size",
    weights: "Weights in memory",
    context: "Trained context",
    parameters: "Architecture",
    revision: "Revision",
    checked: "Source checked",
    changed: "Source changed",
    refresh: "Refresh policy",
    prefetch: "Prefetched",
    accelerator: "Accelerator",
    files: "Files",
    sha256: "SHA-256",
    created: "Created",
  },
  fileCount: (count: number) => (count === 1 ? "1 file" : `${count} files`),
  services: "Services that use it",
  noServices: "No service uses this model.",
  deploy: "Deploy",
  downloads: "Downloads",
  download: (done: string, total: string) => `${done} of ${total}`,
  speed: (speed: string, left: string) => `${speed}, ${left} left`,
  tabs: {
    copies: "Copies",
    benchmarks: "Benchmarks",
    conditions: "Conditions",
    events: "Events",
    yaml: "YAML",
  },
  copies: {
    host: "Host",
    size: "Size",
    sha256: "SHA-256",
    volume: "Volume for pods",
    none: "No host has a verified copy yet. Hosts download the weights when a replica is placed there.",
  },
  benchmarks: {
    deviceClass: "Device class",
    runtime: "Runtime",
    build: "Build",
    tokens: "Tokens/s",
    measured: "Measured",
    none: "Not measured yet. Each class of machine measures the model once, while one of them is idle.",
  },
  remove: {
    act: "Delete",
    title: (name: string) => `Delete the model ${name}?`,
    unused: "No service uses it.",
    used: (count: number) =>
      count === 1
        ? "1 service uses it. Its replicas keep running, but no new replica can be started:"
        : `${count} services use it. Their replicas keep running, but no new replica can be started:`,
    copies: (count: number) =>
      count === 0
        ? "No host has a copy of its weights."
        : `${count === 1 ? "The copy" : `The ${count} copies`} on hosts stay until their space is needed.`,
    volume: "The weights on the volume for pods are deleted.",
  },
} as const;
