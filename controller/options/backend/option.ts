/** The option: reports on BackendRuntimes how their services use them, and publishes those of our own runtimes. */
import type { Option } from "../../frame/option.ts";
import { publishBuiltInBackends } from "./built-in.ts";
import { reconcileBackend } from "./reconcile.ts";

export const backends: Option = {
  start: () => ({
    onLead: (leading) => void publishBuiltInBackends(leading),
    queue: "backends",
    lead: (ports) => ({
      pass: (name) => reconcileBackend(ports, name),
      handlers: { onBackend: (name) => ports.enqueue(name), onBackendMember: (name) => ports.enqueue(name) },
      keys: () => ports.watches.backendRuntimes.list().map(({ metadata }) => metadata.name),
    }),
  }),
};
