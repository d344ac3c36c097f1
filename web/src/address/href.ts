/** Where a machine and a service have their pages. */
import type { HostRow, ServiceRow } from "../../../src/console/rows.ts";

export function hrefOfMachine({ kind, name }: Pick<HostRow, "kind" | "name">): string {
  return `/${kind === "Host" ? "hosts" : "nodes"}/${encodeURIComponent(name)}`;
}

export function hrefOfService({ namespace, name }: Pick<ServiceRow, "namespace" | "name">): string {
  return `/services/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}
