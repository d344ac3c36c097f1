/** Texts of the page Overview. */
export const overviewText = {
  hosts: "Machines ready",
  services: "Services ready",
  tokens: "Tokens per second",
  tokensHistory: (least: string, most: string) => `Last 15 minutes: between ${least} and ${most} tokens/s`,
  requests: "Requests in flight",
  queue: "Waiting in queues",
  longest: (time: string) => `longest ${time}`,
  noneWait: "none waiting",
  memory: "Memory claimed",
  ofBudget: (budget: string) => `of ${budget}`,
  of: (total: string) => `of ${total}`,
  noRight: "no right to see hosts",
  noServicesRight: "no right to see services",
  attention: "Needs attention",
  allServing: (count: number) =>
    count === 1 ? "The only service is serving." : `All ${count} services are serving.`,
  noController: (count: number) =>
    `The controller has not reported on ${count === 1 ? "a service" : `${count} services`}. See whether it runs: metalbridge status`,
  noMachine: "No service is serving, and no machine is ready for new replicas.",
  someServing: (serving: number, all: number) =>
    `${serving} of ${all} services are serving; the others are starting or at rest.`,
  noServices: "No service asks for anything yet.",
  lastChange: "Newest service:",
  alike: (count: number, kind: string) => `${count} ${kind}`,
  kinds: { host: "machines", service: "services", model: "models" },
  affects: "affects",
  others: (count: number) => `and ${count} more`,
  machines: "Machines, fullest first",
  allMachines: (count: number) => (count === 1 ? "All machines" : `All ${count} machines`),
  start: "Nothing is here yet",
  startWhy:
    "Metalbridge needs a machine that runs engines and a model to serve. Both take one command; what they do appears here as it happens.",
  firstHost: "1. Register a Mac or Linux machine, and run the command that this prints on that machine:",
  firstHostCommand: "metalbridge host add mini-1 --address 192.168.1.21",
  firstService: "2. Serve a model:",
  firstServiceCommand: "metalbridge deploy hf://ggml-org/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf --name qwen3",
} as const;
