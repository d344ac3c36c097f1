/** Texts of the list of services. */
export const servicesText = {
  empty: "No services yet",
  emptyWhy:
    "A service serves one model under one address, on as many machines as you want. Choose a model, and see before you deploy it where it fits and how fast it will be. In a terminal:",
  emptyCommand: "metalbridge deploy qwen3:8b",
  emptyIn: (namespace: string) => `No services in namespace ${namespace}`,
  ready: (ready: number, all: number) => `${ready} of ${all} ready`,
  filter: "Filter by name, model, host",
  states: "States",
  levels: { ok: "Ready", busy: "In progress", warn: "Needs attention", bad: "Not serving", idle: "At rest" },
  columns: {
    name: "Name",
    namespace: "Namespace",
    state: "State",
    ready: "Ready",
    model: "Model",
    runtime: "Runtime",
    hosts: "Hosts",
    speed: "Tokens/s",
    requests: "Requests",
    memory: "Memory",
    age: "Age",
  },
} as const;
