/** Endpoint of a service for clients: port, path, type of Service, model names, API key, objectives. */
import { z } from "zod";
import { int32, localReference, nonEmpty, objectName } from "../fields/shared.ts";

/** Number of further model names of a service. */
export const MODEL_NAMES_MAX = 16;

/** A model name in requests. Names of Hugging Face, Ollama and the OpenAI API have this form. */
const modelNameSchema = nonEmpty(253).regex(/^[A-Za-z0-9][A-Za-z0-9._:/@-]*$/);

export const endpointSchema = z
  .object({
    port: int32(1, 65535).describe("Port of the cluster Service.").default(8080),
    path: z
      .string()
      .max(1024)
      .regex(/^\/\S*$/)
      .describe("HTTP path shown in status.endpoint. All paths of the engine are reachable.")
      .default("/v1/chat/completions"),
    type: z
      .enum(["ClusterIP", "NodePort", "LoadBalancer"])
      .describe("Type of the cluster Service.")
      .default("ClusterIP"),
    nodePort: int32(30000, 32767)
      .describe("Port on every node, with type NodePort. If absent, the cluster chooses one.")
      .optional(),
    allowFrom: z
      .array(nonEmpty(63).regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/))
      .max(64)
      .meta({
        description:
          "Namespaces whose pods may connect to the engine, in addition to those of the service and of the controller. Include the namespace of Prometheus to collect metrics. Creates a NetworkPolicy, which also rejects clients outside the cluster. If absent, no NetworkPolicy is created. Pods only.",
        "x-kubernetes-list-type": "set",
      })
      .optional(),
    gate: z
      .enum(["Auto", "Always", "Never"])
      .describe(
        "Use of the gate, which checks API keys, serves TLS and counts requests in front of the engine on a host. Auto uses it with auth or tls, and for runtimes that share a server. Never cannot be combined with tls or with such a runtime. Defaults to Auto.",
      )
      .optional(),
    transport: z
      .enum(["Sealed", "Direct"])
      .describe(
        "Traffic to replicas on hosts. Sealed: the gate serves TLS 1.3 with the key of its host, only to the gateways and relays of this cluster, whose keys the controller publishes; engines listen on loopback. Clients use the gateway, or the cluster Service, which leads to the relay. Direct: clients connect to the hosts, with HTTPS if tls is set. Defaults to the setting of the controller, or to Direct with tls or gate Never. Pods do not use it.",
      )
      .optional(),
    balancing: z
      .enum(["LeastRequests", "PrefixAffinity"])
      .describe(
        "Choice of the replica on the gateway. LeastRequests prefers the replica with the fewest requests, in proportion to its speed. PrefixAffinity sends requests that begin alike to the same replica, which has their beginning in its cache, while that has no more than its share. Defaults to LeastRequests. Requests with the header x-session-id always prefer the replica of their session.",
      )
      .optional(),
    tls: z
      .object({
        secretRef: localReference(
          "Secret of type kubernetes.io/tls, with the certificate chain in tls.crt and its private key in tls.key.",
          "Name of the Secret, in the service's namespace.",
        ),
        clientCASecretRef: localReference(
          "Secret with CA certificates in ca.crt. Clients must present a certificate that one of them has signed. If absent, clients need none.",
          "Name of the Secret, in the service's namespace.",
        ).optional(),
      })
      .describe("TLS certificate with which the gate serves HTTPS. If absent, clients use plain HTTP.")
      .optional(),
    modelNames: z
      .array(
        z.object({
          name: modelNameSchema.describe(
            "Model name as clients send it in the field model of a request: letters, digits and . _ : / @ -",
          ),
          weight: int32(0, 1000)
            .describe(
              "Share of the requests for this name, relative to the other services of the namespace that give the same name a weight. Without a weight, only one service can have the name: the one that has claimed it for longest.",
            )
            .optional(),
        }),
      )
      .max(MODEL_NAMES_MAX)
      .meta({
        description:
          "Further model names under which gateways offer the service, beside NAMESPACE/NAME and, unless another service has claimed it for longer, NAME. A name such as team-b/chat, which begins with the name of another namespace, is refused. The condition ModelNamesAccepted lists names that the service does not have.",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
      })
      .optional(),
    gateway: z
      .object({
        enabled: z
          .boolean()
          .describe(
            "If true, the service has a route on the Gateway. If false, it has none. Defaults to true if the controller runs with --gateway-mode EnvoyAIGateway, else to false.",
          )
          .optional(),
        gatewayRef: z
          .object({
            name: objectName("Name of the Gateway."),
            namespace: nonEmpty(63)
              .describe("Namespace of the Gateway. Defaults to the namespace of the service.")
              .optional(),
          })
          .describe(
            "Gateway to attach the route to. Defaults to the Gateway in the controller's configuration.",
          )
          .optional(),
        modelName: modelNameSchema
          .describe(
            "Model name that clients use on the Gateway, like an entry of modelNames without a weight.",
          )
          .optional(),
      })
      .describe("Route on a Gateway of Envoy AI Gateway.")
      .optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: "!has(self.nodePort) || self.type == 'NodePort'",
        message: "endpoint.nodePort needs endpoint.type NodePort",
      },
      {
        rule: "!has(self.tls) || !has(self.gate) || self.gate != 'Never'",
        message: "endpoint.tls is served by the gate: set endpoint.gate to Auto",
      },
      {
        rule: "!has(self.transport) || self.transport != 'Sealed' || !has(self.tls) && (!has(self.gate) || self.gate != 'Never')",
        message:
          "endpoint.transport Sealed is served by the gate with the key of its host: remove endpoint.tls, and set endpoint.gate to Auto",
      },
    ],
  });

export const authSchema = z.object({
  secretRef: localReference(
    "Secret with the API key that clients must send as a bearer token.",
    "Name of the Secret, in the service's namespace.",
  ),
  key: nonEmpty(253)
    .regex(/^[-._a-zA-Z0-9]+$/)
    .describe("Key within the Secret.")
    .default("apiKey"),
});

export const sloSchema = z
  .object({
    objective: z
      .string()
      .max(16)
      .regex(/^([5-9][0-9](\.[0-9]{1,3})?)$/)
      .describe('Target percentage of good requests, from 50 to 99.999, as a string, for example "99.5".'),
    window: z
      .string()
      .max(16)
      .regex(/^[0-9]{1,6}[mhdw]$/)
      .describe(
        "Evaluation window, from 1h to 52w, for example 28d; the windows of the alerts are parts of it. Defaults to 28d.",
      )
      .default("28d"),
    indicator: z
      .enum(["availability", "latency"])
      .describe(
        "Indicator of good requests: availability counts requests that were answered without a server error and without a full queue, latency those whose response began within latencyThreshold.",
      )
      .default("availability"),
    latencyThreshold: z
      .string()
      .max(16)
      .regex(/^[0-9]+(\.[0-9]+)?(ms|s|m)$/)
      .describe(
        "Maximum time to the first byte of a good response, for example 500ms. Required with indicator latency. Values between two buckets of the gateway's histogram (50ms, 100ms, 250ms, 500ms, 1s, 2500ms, 5s, 10s, 30s, 60s, 300s) count as the larger one.",
      )
      .optional(),
    name: nonEmpty(63)
      .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/)
      .describe("Name of the objective, and of its object. Defaults to the name of the service.")
      .optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: "self.indicator != 'latency' || has(self.latencyThreshold)",
        message: "slo.latencyThreshold is needed with slo.indicator latency",
      },
      {
        rule: "!has(self.window) || [int(self.window.find('^[0-9]+')) * {'m': 1, 'h': 60, 'd': 1440, 'w': 10080}[self.window.find('[mhdw]$')]].all(minutes, minutes >= 60 && minutes <= 524160)",
        message: "slo.window must be from 1h to 52w",
      },
    ],
  });
