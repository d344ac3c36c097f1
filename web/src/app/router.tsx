/** The pages and their addresses. A page is loaded when it is opened, or when the reader points at its link. */

import { createRootRoute, createRoute, createRouter, Link, lazyRouteComponent } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { type ApiRefusal, CONSOLE_PATH } from "../../../src/console/protocol.ts";
import { parseSearch, type Search, stringifySearch } from "../address/search.ts";
import { Empty, Failure } from "../parts/notices.tsx";
import { Frame } from "./frame.tsx";

const root = createRootRoute({
  component: Frame,
  validateSearch: (search) => search as Search,
  notFoundComponent: () => (
    <div className="stack gap-24 page">
      <Empty title="There is no page at this address." why="">
        <Link to="/" className="link">
          Go to the overview
        </Link>
      </Empty>
    </div>
  ),
});

/** Every row is a page: its path, the module, the name of its component. */
const pages = [
  page("/", () => import("../pages/overview/overview.tsx"), "OverviewPage"),
  page("/services", () => import("../pages/services/services.tsx"), "ServicesPage"),
  page("/services/$namespace/$name", () => import("../pages/service/service.tsx"), "ServicePage"),
  page("/models", () => import("../pages/models/models.tsx"), "ModelsPage"),
  page("/models/$namespace/$name", () => import("../pages/model/model.tsx"), "ModelPage"),
  page("/hosts", () => import("../pages/hosts/hosts.tsx"), "HostsPage"),
  page("/hosts/$name", () => import("../pages/machine/machine.tsx"), "HostPage"),
  page("/nodes/$name", () => import("../pages/machine/machine.tsx"), "NodePage"),
  page("/fits", () => import("../pages/what-fits/what-fits.tsx"), "WhatFitsPage"),
  page("/topology", () => import("../pages/topology/topology.tsx"), "TopologyPage"),
  page("/playground", () => import("../pages/playground/playground.tsx"), "PlaygroundPage"),
  page("/gateway", () => import("../pages/gateway/gateway.tsx"), "GatewayPage"),
  page("/usage", () => import("../pages/usage/usage.tsx"), "UsagePage"),
  page("/settings", () => import("../pages/settings/settings.tsx"), "SettingsPage"),
];

function page<T extends Record<string, unknown>>(
  path: string,
  load: () => Promise<T>,
  name: keyof T & string,
) {
  const component = lazyRouteComponent(load as () => Promise<Record<string, () => ReactNode>>, name);
  return createRoute({ getParentRoute: () => root, path, component });
}

const refusalOf = (error: unknown): ApiRefusal =>
  error instanceof Error
    ? { code: error.name, message: error.message }
    : { code: "Error", message: String(error) };

export const router = createRouter({
  routeTree: root.addChildren(pages),
  basepath: CONSOLE_PATH,
  parseSearch,
  stringifySearch,
  defaultPreload: "intent",
  scrollRestoration: true,
  scrollToTopSelectors: ["#content"],
  // A part of the page that did not arrive, after an update of the server or over a network that broke, stays
  // missing until the document is loaded again.
  defaultErrorComponent: ({ error }) => (
    <div className="stack gap-24 page">
      <h1>This page could not be shown</h1>
      <Failure
        error={{
          ...refusalOf(error),
          remedy:
            "Load the page again. It may belong to an earlier version of the console, or the network failed.",
        }}
        onRetry={() => window.location.reload()}
      />
    </div>
  ),
});
