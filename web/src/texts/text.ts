/** The texts of the console. What the cluster says (conditions, Events, errors) is shown as it is. */
export const text = {
  product: "Metalbridge",
  pages: {
    overview: "Overview",
    services: "Services",
    models: "Models",
    hosts: "Hosts",
    whatFits: "What fits",
    topology: "Topology",
    playground: "Playground",
    gateway: "Gateway",
    usage: "Usage",
    settings: "Settings",
  },
  frame: {
    skip: "Skip to content",
    search: "Search or jump to…",
    allNamespaces: "All namespaces",
    yourNamespaces: "All that you may see",
    namespace: "Namespace",
    deploy: "Deploy a model",
    menu: "More",
    themeToDark: "Use the dark theme",
    themeToLight: "Use the light theme",
    account: "Account",
    signOut: "Sign out",
    readOnly: "Read-only",
  },
  sight: {
    only: (namespaces: readonly string[], hasHosts: boolean) => {
      const { length } = namespaces;
      const names = length > 3 ? `${length} namespaces` : `namespaces ${namespaces.join(", ")}`;
      const shown = length === 1 ? `namespace ${namespaces[0]} is shown` : `${names} are shown`;
      const [noHosts, norHosts] = hasHosts ? ["", ""] : [", and no hosts", ", nor hosts"];
      return `Only ${shown}${noHosts}: you may not list inferenceservices of all namespaces${norHosts}.`;
    },
    claims: "Claims of other namespaces are not counted: less memory may be free than shown.",
    another: "metalbridge console -n selects another namespace.",
  },
  link: {
    connecting: "Connecting",
    live: "Live",
    liveWhy: "Changes in the cluster appear here as they happen.",
    reconnecting: "Reconnecting",
    reconnectingWhy: (age: string, why: string) =>
      `Data is ${age} old: ${why}. The console reconnects automatically.`,
    away: "API server away",
    awayWhy: (age: string) =>
      `Data is ${age} old: the API server of the cluster does not answer. The console continues once it does.`,
    signedOut: "Signed out",
    retry: "Reconnect now",
  },
  signIn: {
    title: "Sign in",
    again: "Your session has expired. Sign in again to continue; this page stays as it is.",
    token: "Token of a Kubernetes user or ServiceAccount",
    tokenHelp: "Create one that is valid for a day:",
    tokenCommand: "kubectl create token <serviceaccount> -n <namespace> --duration=24h",
    submit: "Sign in",
    oidc: "Sign in with your organization",
    oidcBeside: "It opens in another tab. Come back to this one afterwards.",
    code: "Open the address that `metalbridge console` printed in your terminal. It signs you in with your kubeconfig.",
    refused:
      "The identity provider did not sign you in. Try again; if it fails again, show the code to an administrator.",
    signOutFailed: "You are still signed in",
  },
  rights: {
    checking: "Checking your rights…",
    readOnly: "This console is read-only.",
  },
  memory: {
    help: [
      "Budget: the memory that engines may claim on the machine.",
      "Claim: what is set aside for one replica.",
      "In use (filled): the measured footprint of its engine.",
      "Reserve (hatched): kept free for the system, and not part of the budget.",
      "Free: what a new replica can claim now; less if other programs use the memory.",
      "Unused: the same on a cordoned or drained machine, which takes no new replica.",
    ].join("\n"),
    free: (amount: string) => `${amount} free`,
    unused: (amount: string) => `${amount} unused`,
    used: (claimed: string, budget: string) => `${claimed} of ${budget}`,
    unknown: "Budget unknown",
    reserve: (amount: string) => `Reserved for the system: ${amount}`,
    claim: (name: string, claimed: string) => `${name}: ${claimed}`,
    measured: (used: string) => `, ${used} in use`,
    hidden: "A namespace that you may not see",
    over: (amount: string) => `Over by ${amount}`,
    label: (name: string, claimed: string, budget: string) =>
      `Memory of ${name}: ${claimed} of ${budget} claimed`,
  },
  contextCut: (why: string) =>
    why === "" ? "the engine serves a shorter context than spec.contextSize asks for" : why,
  cordon: {
    keepsOff: (host: string) => `Host ${host} is cordoned: no new replicas start on it.`,
    uncordon: (host: string) => `Uncordon ${host}`,
  },
  table: {
    columns: "Columns",
    copy: "Copy as TSV",
    copied: "Copied",
    filter: "Filter",
    clear: "Clear filters",
    /** Nothing while all are shown: the title says how many. */
    count: (shown: number, all: number) => (shown === all ? "" : `${shown} of ${all}`),
    none: "No rows match the filters.",
    sortBy: (column: string) => `Sort by ${column}`,
  },
  dialog: {
    discard: "Discard what you have entered?",
    discardIt: "Discard",
    discardWhy: "Nothing of it has been saved.",
  },
  form: { required: (label: string) => `${label} (required)` },
  copy: { label: "Copy", done: "Copied" },
  error: {
    title: "This page could not be shown",
    retry: "Try again",
    reload: "Load the page again. It may belong to an earlier version of the console, or the network failed.",
    copy: "Copy the error",
    notFound: "There is no page at this address.",
    home: "Go to the overview",
    gone: (what: string) => `${what} no longer exists.`,
    goneWhy: "It was deleted while this page was open, or the address is wrong.",
  },
  state: { unknown: "Unknown", never: "never", now: "now" },
  hosts: {
    empty: "No machines yet",
    emptyCommand: "metalbridge host add mini-1 --address 192.168.1.21",
  },
} as const;

/** 1 replica, 2 replicas. */
export function plural(count: number, what: string): string {
  return `${count.toLocaleString("en-US")} ${what}${count === 1 ? "" : "s"}`;
}
