/** How clients reach a service: port, path, kind of Service, API key, objectives. */
import { z } from "zod";
import { localReference, objectName } from "../fields/shared.ts";

export const endpointSchema = z
  .object({
    port: z.int32().min(1).max(65535).describe("Port of the cluster Service.").default(8080),
    path: z
      .string()
      .max(1024)
      .regex(/^\/\S*$/)
      .describe("Path shown in status.endpoint; every path of the engine is reachable.")
      .default("/v1/chat/completions"),
    type: z
      .enum(["ClusterIP", "NodePort", "LoadBalancer"])
      .describe("Kind of the Service: inside the cluster, on every node, or with a load balancer.")
      .default("ClusterIP"),
    nodePort: z
      .int32()
      .min(30000)
      .max(32767)
      .describe("Port on every node, with type NodePort. Absent: chosen by the cluster.")
      .optional(),
    allowFrom: z
      .array(
        z
          .string()
          .min(1)
          .max(63)
          .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/),
      )
      .max(64)
      .meta({
        description:
          "Namespaces from which pods may connect to the engine, beside the service's own and the controller's; Prometheus needs its own to be in the list. A NetworkPolicy, so clients outside of the cluster are refused. Only for pods. Absent: no NetworkPolicy.",
        "x-kubernetes-list-type": "set",
      })
      .optional(),
    gate: z
      .enum(["Auto", "Always", "Never"])
      .describe(
        "Whether clients reach the engine through the host's gate, which checks API keys, serves TLS and counts requests. Auto: with auth or tls, and for engines that share a server. Never: not with tls, nor for engines that share a server. Absent: Auto.",
      )
      .optional(),
    tls: z
      .object({
        secretRef: localReference(
          "Secret of type kubernetes.io/tls: the certificate chain in tls.crt, its key in tls.key.",
          "Name of the Secret, in the service's namespace.",
        ),
      })
      .describe("Clients use HTTPS; the gate serves it with this certificate. Absent: plain HTTP.")
      .optional(),
    gateway: z
      .object({
        enabled: z.boolean().describe("True: the service is reachable through a Gateway.").optional(),
        gatewayRef: z
          .object({
            name: objectName("Name of the Gateway."),
            namespace: z
              .string()
              .min(1)
              .max(63)
              .describe("Its namespace. Absent: the service's own.")
              .optional(),
          })
          .describe("The Gateway to attach to.")
          .optional(),
        modelName: z
          .string()
          .min(1)
          .max(253)
          .describe("Model name that clients use on the Gateway. Absent: the service's name.")
          .optional(),
      })
      .describe("A route on a Gateway. Not in this version.")
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
    ],
  });

export const authSchema = z.object({
  secretRef: localReference(
    "Secret that holds the API key that clients must send as a bearer token.",
    "Name of the Secret, in the service's namespace.",
  ),
  key: z
    .string()
    .min(1)
    .max(253)
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
      .describe('Share of good requests in percent, 50 to 99.999, as a string: "99.5".'),
    window: z
      .string()
      .max(16)
      .regex(/^[0-9]+[mhdw]$/)
      .describe("Evaluation window, for example 28d.")
      .default("28d"),
    indicator: z
      .enum(["availability", "latency"])
      .describe("Indicator: availability counts answered requests, latency those answered in time.")
      .default("availability"),
    latencyThreshold: z
      .string()
      .max(16)
      .regex(/^[0-9]+(\.[0-9]+)?(ms|s|m)$/)
      .describe("Maximum latency of a good request, for example 500ms; required with indicator latency.")
      .optional(),
    name: z.string().min(1).max(63).describe("Name of the objective. Absent: the service's name.").optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: "self.indicator != 'latency' || has(self.latencyThreshold)",
        message: "slo.latencyThreshold is needed with slo.indicator latency",
      },
    ],
  });
