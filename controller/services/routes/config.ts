/** Settings for routes on gateways of other projects, with their defaults. */
import { z } from "zod";

export const routesConfigSchema = z.strictObject({
  gatewayMode: z
    .enum(["None", "EnvoyAIGateway"])
    .default("None")
    .describe(
      "EnvoyAIGateway: every service has a route on a Gateway of Envoy AI Gateway, unless its endpoint.gateway.enabled is false. None: only services with endpoint.gateway.enabled true have one.",
    ),
  gatewayRef: z
    .string()
    .max(317)
    .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?\/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/, "must be NAMESPACE/NAME")
    .optional()
    .describe(
      "Gateway (NAMESPACE/NAME) for the routes of services without endpoint.gateway.gatewayRef. Its listener must allow routes from the namespaces of the services.",
    ),
});

/** The Gateway of a service. */
export interface GatewayName {
  readonly namespace: string;
  readonly name: string;
}

export interface RouteSettings {
  /** Services without endpoint.gateway.enabled have a route. */
  readonly isDefault: boolean;
  readonly gateway: GatewayName | undefined;
}

export function routeSettingsOf({
  gatewayMode,
  gatewayRef,
}: z.output<typeof routesConfigSchema>): RouteSettings {
  const [namespace = "", name = ""] = gatewayRef?.split("/") ?? [];
  return {
    isDefault: gatewayMode === "EnvoyAIGateway",
    gateway: gatewayRef === undefined ? undefined : { namespace, name },
  };
}
