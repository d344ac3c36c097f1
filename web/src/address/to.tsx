/** Links between the pages. Another page has other filters, but the same namespace. */
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { HostRow } from "../../../src/console/rows.ts";
import { keepNamespace } from "./search.ts";

interface Named {
  readonly namespace: string;
  readonly name: string;
}

export function hrefOfMachine({ kind, name }: Pick<HostRow, "kind" | "name">): string {
  return `/${kind === "Host" ? "hosts" : "nodes"}/${encodeURIComponent(name)}`;
}

export function hrefOfService({ namespace, name }: Named): string {
  return `/services/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}

export function hrefOfModel({ namespace, name }: Named): string {
  return `/models/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}

export function To({
  path,
  className = "link",
  ...rest
}: {
  readonly path: string;
  readonly className?: string;
  readonly title?: string;
  readonly onClick?: () => void;
  readonly "aria-label"?: string;
  readonly children: ReactNode;
}) {
  return <Link to={path as "/"} search={keepNamespace} className={className} {...rest} />;
}
