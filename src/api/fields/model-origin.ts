/** Fields of a Model that describe it to users: its family, owner and creation time. */
import { nonEmpty, PRINTABLE, timestamp } from "./shared.ts";

const LABEL_VALUE = /^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/;

/** None of them affects an engine, so a change replaces no replica. The status of a service repeats them. */
export const modelOrigin = {
  familyName: nonEmpty(63)
    .regex(LABEL_VALUE)
    .describe(
      "Family of the model, for example llama3. It becomes the label metalbridge.dev/model-family of the objects that serve the Model, so it must be a label value: letters, digits and '-', '_', '.', with a letter or digit at both ends.",
    )
    .optional(),
  ownedBy: nonEmpty(128)
    .regex(PRINTABLE)
    .describe(
      "Owner of the model, which gateways list as owned_by. No control characters. Defaults to the namespace of the service, and to metalbridge on Envoy AI Gateway.",
    )
    .optional(),
  createdAt: timestamp(
    "Creation time of the model, which gateways list as created. Defaults to the creation time of the service; Envoy AI Gateway uses that of its route.",
  ).optional(),
};
