/** The option: a webhook that checks that a service fits some machine. */
import { z } from "zod";
import { certificateNames, listenPort } from "../../../src/api/fields/shared.ts";
import { NAMESPACE_SYSTEM } from "../../../src/api/group.ts";
import { readyRoute } from "../../../src/http/listener.ts";
import { VALIDATING_WEBHOOKS } from "../../../src/kube/kinds.ts";
import type { ValidatingWebhooks } from "../../../src/kube/objects.ts";
import { CERTIFICATE_MS } from "../../frame/certificates/certificate.ts";
import { keepCertificate, type Published } from "../../frame/certificates/rotation.ts";
import type { Option } from "../../frame/option.ts";
import { startPreflight } from "./preflight.ts";
import { PREFLIGHT_MODES } from "./review.ts";

/** Name of the webhook configuration, the Service and the Secret in the chart. */
export const WEBHOOK_NAME = "metalbridge-preflight";

const PUBLISHED_WEBHOOKS: Published<ValidatingWebhooks> = {
  kind: VALIDATING_WEBHOOKS,
  name: WEBHOOK_NAME,
  trust: ({ webhooks = [] }, caBundle) =>
    webhooks.flatMap(({ name, clientConfig }, index) =>
      clientConfig.caBundle === caBundle
        ? []
        : [
            { op: "test", path: `/webhooks/${index}/name`, value: name } as const,
            { op: "add", path: `/webhooks/${index}/clientConfig/caBundle`, value: caBundle } as const,
          ],
    ),
};

export const preflightConfigSchema = z.strictObject({
  preflight: z
    .enum(PREFLIGHT_MODES)
    .default("Off")
    .describe(
      "Validate InferenceServices with a webhook when they are created or changed. Warn: kubectl shows a warning if the model fits no machine. Deny: the service is rejected, unless a new node could run it (see preflightFixedNodes).",
    ),
  preflightAddress: z.string().min(1).default("0.0.0.0").describe("Address of the webhook (HTTPS)."),
  preflightPort: listenPort(9443, "Port of the webhook. 0 selects a free port."),
  preflightNames: certificateNames(
    `DNS names and addresses in the certificate of the webhook, separated by commas. Default: the DNS names of the Service ${WEBHOOK_NAME}.`,
  ),
  preflightFixedNodes: z
    .boolean()
    .default(false)
    .describe(
      "The cluster has no node autoscaler: with Deny, services that would run in pods and fit no node are rejected too. If false, an autoscaler may add a suitable node, so such services only get a warning.",
    ),
});

export const preflight: Option<typeof preflightConfigSchema.shape> = {
  shape: preflightConfigSchema.shape,
  start: (config, ports) => {
    const settings = ports.isDryRun === true ? undefined : preflightOf(config);
    const state = settings && startPreflight({ ...settings, ...ports });
    return {
      // For controllers that do not lead too.
      routes: { "/readyz/preflight": readyRoute(() => state?.failures() ?? []) },
      notReady: state?.notServed,
      ended: state?.ended,
      onLead: (leading) => {
        if (settings !== undefined) keepCertificate({ ...settings, ...leading });
      },
    };
  },
};

/** Undefined if preflight is off. */
export function preflightOf({
  preflight: mode,
  preflightAddress: address,
  preflightPort: port,
  preflightNames,
  preflightFixedNodes: hasFixedNodes,
}: z.output<typeof preflightConfigSchema>) {
  if (mode === "Off") return undefined;
  const service = `${WEBHOOK_NAME}.${NAMESPACE_SYSTEM}.svc`;
  const names = preflightNames.length > 0 ? preflightNames : [service, `${service}.cluster.local`];
  return {
    mode,
    hasFixedNodes,
    address,
    port,
    secret: { name: WEBHOOK_NAME, namespace: NAMESPACE_SYSTEM },
    names,
    lifetimeMs: CERTIFICATE_MS,
    published: PUBLISHED_WEBHOOKS,
  };
}
