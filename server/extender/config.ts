/** The flags of the scheduler extender, validated once at the start. */
import { z } from "zod";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { scoreWeightsSchema } from "../../src/capacity/score-weights.ts";
import { isLoopback } from "../../src/http/loopback.ts";

const port = (byDefault: number, description: string) =>
  z.coerce.number().int().min(0).max(65535).default(byDefault).describe(description);
const file = (description: string) => z.string().min(1).optional().describe(description);

export const extenderConfigSchema = z
  .strictObject({
    kubeconfig: file(
      "Kubeconfig of the cluster. Default: KUBECONFIG, then ~/.kube/config, then the pod's ServiceAccount.",
    ),
    context: z.string().min(1).optional().describe("Context of the kubeconfig."),
    address: z.string().min(1).default("127.0.0.1").describe("Address that schedulers connect to."),
    port: port(8443, "Port that schedulers connect to. 0 selects a free port."),
    tlsCert: file("File with the certificate chain (PEM). Required without insecureListen."),
    tlsKey: file("File with the private key (PEM) of tlsCert."),
    insecureListen: z
      .boolean()
      .default(false)
      .describe(
        "Serve plain HTTP if tlsCert is unset. Only on a loopback address, for a scheduler on the same machine.",
      ),
    healthAddress: z
      .string()
      .min(1)
      .default("127.0.0.1")
      .describe("Address of /healthz, /readyz and /metrics."),
    healthPort: port(9464, "Port of /healthz, /readyz and /metrics. 0 selects a free port."),
    scoreWeights: scoreWeightsSchema,
  })
  .refine(({ tlsCert, tlsKey }) => (tlsCert === undefined) === (tlsKey === undefined), {
    path: ["tlsKey"],
    message: "must be set together with tlsCert",
  })
  .refine(({ tlsCert, insecureListen }) => tlsCert !== undefined || insecureListen, {
    path: ["tlsCert"],
    message: "is required, or insecureListen on a loopback address",
  })
  .refine(({ tlsCert, address }) => tlsCert !== undefined || isLoopback(address), {
    path: ["insecureListen"],
    message: "requires a loopback address",
  });

export type ExtenderConfig = Readonly<z.output<typeof extenderConfigSchema>>;

/** Throws MetalbridgeError that names the key. */
export function parseExtenderConfig(input: unknown): ExtenderConfig {
  const parsed = extenderConfigSchema.safeParse(input);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const key = issue?.code === "unrecognized_keys" ? issue.keys.join(", ") : (issue?.path.join(".") ?? "");
  throw new MetalbridgeError("ExtenderConfigInvalid", `${key}: ${issue?.message ?? "is invalid"}`);
}
