/** Where a service has its page. */
import type { ServiceRow } from "../../../src/console/rows.ts";

export function hrefOfService({ namespace, name }: Pick<ServiceRow, "namespace" | "name">): string {
  return `/services/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}
