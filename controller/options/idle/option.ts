/** The option: unloads services with spec.idle while they have no requests. */
import type { Option } from "../../frame/option.ts";
import { createIdleServices } from "./idle.ts";

export const idle: Option = {
  start: () => ({
    lead: (ports) => ({ idle: createIdleServices({ ...ports, onChange: ports.services.enqueueAfter }) }),
  }),
};
