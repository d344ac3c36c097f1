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
  preview: "Where it fits",
  place: (runsThere: string) => `The service ${runsThere}.`,
  previewNothing: "Choose a model, and the machines that fit it appear here.",
  previewUnknown:
    "The catalog does not know this model. Its memory is known once the controller has read the header of the file; the service then runs where it fits.",
  noMachine: {
    Hosts:
      "This deployment runs on hosts, and the cluster has none that reports its memory. Add one, or set spec.hardware.accelerator of the Model in the YAML to run it in pods.",
    Pods: "This deployment runs in pods, and no node has its accelerator. Correct spec.hardware.accelerator of the Model in the YAML, or add a node.",
    Auto: "The cluster has no host and no node that this deployment can use. Add one, or correct spec.hardware.accelerator of the Model in the YAML.",
  },
  contextCut: (trained: string, asked: string) =>
    `The model was trained for ${trained} tokens: a request gets no more, but memory for ${asked} is claimed. Set the context size to ${trained} or less.`,
  fits: (count: number) => (count === 1 ? "1 machine fits" : `${count} machines fit`),
  roomFor: (room: string, replicas: string) =>
    `These have memory for ${room} of the ${replicas} replicas now. The others wait until more memory is free.`,
  none: "No machine has enough free memory now. The service waits until one has.",
  noneAccepts:
    "The machines that have the memory take no new replicas now. The service waits until one does, or another one has the memory.",
  obstacle: {
    cordoned: "Cordoned: it takes no new replicas until it is uncordoned.",
    stale: "It has stopped reporting.",
  },
  recommended: "Recommended",
  why: {
    "fastest with reserve": "Fastest that leaves 20 % of its memory free",
    "most memory left": "Leaves the most memory free; none leaves 20 %",
    "none fits": "",
    "none accepts": "",
  },
  schedulerChooses: "Metalbridge chooses the machine when it places the replica, by these figures.",
  tokens: (rate: string) => `≈ ${rate} tokens/s`,
  needs: (memory: string) => `needs ${memory}`,
  short: (memory: string) => `${memory} missing`,
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
