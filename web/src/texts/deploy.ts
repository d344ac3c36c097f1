/** Texts of the dialog that deploys a model, and of the progress after it. */
export const deployText = {
  levels: {
    perfect: "Perfect fit",
    good: "Good fit",
    marginal: "Marginal fit",
    too_tight: "Does not fit",
  },
  from: { label: "Where the model is from", catalog: "Catalog", source: "Own source" },
  search: "Search the catalog",
  noMatch: "No model of the catalog matches. Choose Own source to use any address.",
  more: (count: number) => `${count} more: search for a name`,
  change: "Change",
  source: "Source",
  sourceHelp:
    "hf://org/repo, hf://org/repo/file.gguf, https://…, ollama://name:tag, oci://…, or an absolute path on the hosts",
  name: "Name",
  namespace: "Namespace",
  quantization: "Quantization",
  usual: (name: string) => `${name} (usual)`,
  contextSize: "Context size (tokens)",
  contextDefault: "default",
  replicas: "Replicas",
  yaml: "YAML",
  yamlEdited: "Edited by hand: the fields above no longer change it.",
  yamlReset: "Use the fields again",
  yamlTwo: "Write one Model and one InferenceService.",
  yamlKind: "kind must be Model or InferenceService.",
  yamlMissing: (field: string) => `${field} is missing.`,
  submit: "Deploy",
  checking: "Checking…",
  closing: "You can close this dialog at any time: the page of the service shows the same.",
  toService: "Open the service",
  toPlayground: "Open in playground",
  taken: (name: string, namespace: string) =>
    `There is a service ${name} in namespace ${namespace}. Choose another name.`,
  noNamespace: (name: string) =>
    `There is no namespace ${name}. Create it with \`kubectl create namespace ${name}\`, or choose another one.`,
  modelTaken: (name: string, source: string) =>
    `There is a Model ${name} with another source: ${source}. Choose another name.`,
} as const;

export const startText = {
  label: "Progress",
  placing: "Placing",
  downloading: "Downloading",
  loading: "Loading",
  ready: "Ready",
  answer: "First answer",
  of: (done: string, total: string) => `${done} of ${total}`,
  left: (time: string) => `${time} left`,

  asking: "Asking the model a question…",
  question: "Say hello in one short sentence.",
  noGateway: "No gateway is configured, so the console cannot ask the model a question.",
  needsKey: "The gateway wants a key. Set one in the playground, and ask there.",
  vector: (size: number) => `A vector with ${size} dimensions`,
  after: (time: string) => `after ${time}`,
} as const;
