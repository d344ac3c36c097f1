/** The webhook configuration, through which API servers know the authority of the webhook. */
import { VALIDATING_WEBHOOKS } from "../../src/kube/kinds.ts";
import type { ValidatingWebhooks } from "../../src/kube/objects.ts";
import type { Published } from "../certificates/rotation.ts";

/** Name of the webhook configuration, the Service and the Secret in the chart. */
export const WEBHOOK_NAME = "metalbridge-preflight";

export const PUBLISHED_WEBHOOKS: Published<ValidatingWebhooks> = {
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
