/** Texts of the progress of a service until its first answer. */
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
