/**
 * Admission policies for users. The controller creates pods and reads Secrets with its own rights, so a user who makes it do
 * so must have these rights too. The policies validate only what a request changes.
 */
import { engineFields } from "../engine-settings.ts";
import { HOST_ENGINE_INSTALLS } from "../fields/runtimes.ts";
import { ANNOTATION_LOST, FINALIZER_SERVICE, GROUP, VERSION } from "../group.ts";
import { type AccessObject, celField, celUnchanged, type Policy, policyObjects } from "./policy.ts";

/** Fields with which a service runs programs, mounts volumes or changes the privileges of its pods. */
const POD_FIELDS = [
  ...["image", "command", "args", "env", "imagePullSecrets", "podLabels", "podAnnotations"],
  ...["podSecurityContext", "securityContext", "priorityClassName", "extraVolumes", "extraVolumeMounts"],
  ...["modelCache.claimName", "sglangConfig.trustRemoteCode"],
  ...["startup", "liveness", "readiness"].map((probe) => `probeOverrides.${probe}.exec`),
];

/** Runtimes whose extraArgs are checked against an allow-list. Those of other runtimes can name files, code and ports. */
const LISTED_RUNTIMES = Object.keys(HOST_ENGINE_INSTALLS);

const SERVICE_SECRETS = [
  ...["auth.secretRef.name", "endpoint.tls.secretRef.name", "endpoint.tls.clientCASecretRef.name"],
  ...["vllm", "tgi", "sglang", "personaPlex"].map((runtime) => `${runtime}Config.hfTokenSecretRef.name`),
];

/** Fields that a user may change who can patch a service but not update it: the rollout, and the fields that a rollback restores. */
const OPERATOR_FIELDS = [
  ...["rollout", "replicas", "suspend", "idle", "modelRevision", "speculativeDecoding", "loraAdapters"],
  ...Object.keys(engineFields),
];

const CREATE_OR_UPDATE = ["CREATE", "UPDATE"] as const;
const SPECS = [
  { name: "spec", expression: "dyn(object.spec)" },
  { name: "before", expression: "request.operation == 'CREATE' ? dyn({}) : dyn(oldObject.spec)" },
];

const isNew = (path: string) =>
  `(${celField("variables.spec", path)} != null && ${celField("variables.spec", path)} != ${celField("variables.before", path)})`;

/** CEL list of the paths for which the expression is true. */
const pathsWhere = (paths: readonly string[], holds: (path: string) => string) =>
  `[${paths.map((path) => `${holds(path)} ? 'spec.${path}' : ''`).join(", ")}].filter(path, path != '')`;

/** True if the user has the right in the namespace of the request. */
const may = (verb: string, group: string, resource: string) =>
  `authorizer.group('${group}').resource('${resource}').namespace(request.namespace).check('${verb}').allowed()`;
const mayGet = (secret: string) =>
  `authorizer.group('').resource('secrets').namespace(request.namespace).name(${secret}).check('get').allowed()`;

const podSettings: Policy = {
  name: "metalbridge-pod-settings",
  on: [GROUP, VERSION, "inferenceservices"],
  operations: CREATE_OR_UPDATE,
  variables: [
    ...SPECS,
    {
      name: "isListed",
      expression: `${celField("variables.spec", "runtime")} == null || variables.spec.runtime in [${LISTED_RUNTIMES.map((one) => `'${one}'`).join(", ")}]`,
    },
    {
      name: "set",
      expression:
        `${pathsWhere(POD_FIELDS, isNew)} + (!variables.isListed && ${celField("variables.spec", "extraArgs")} != null && ` +
        `(${isNew("extraArgs")} || ${isNew("runtime")}) ? ['spec.extraArgs'] : [])`,
    },
  ],
  validations: [
    {
      expression: `size(variables.set) == 0 || ${may("create", "", "pods")}`,
      message: "these fields need the right to create pods in the namespace",
      messageExpression:
        "variables.set.join(', ') + ': these fields decide what runs in pods, so they require the right to create pods in namespace ' + " +
        "request.namespace + ': remove them, or ask for that right'",
    },
  ],
};

const serviceSecrets: Policy = {
  name: "metalbridge-service-secrets",
  on: [GROUP, VERSION, "inferenceservices"],
  operations: CREATE_OR_UPDATE,
  variables: [
    ...SPECS,
    {
      name: "refused",
      expression: pathsWhere(
        SERVICE_SECRETS,
        (path) => `${isNew(path)} && !${mayGet(celField("variables.spec", path))}`,
      ),
    },
  ],
  validations: [secretRule()],
};

/** The gateway of the controller's configuration is its operator's choice, and needs no right. */
const serviceRoutes: Policy = {
  name: "metalbridge-service-routes",
  on: [GROUP, VERSION, "inferenceservices"],
  operations: CREATE_OR_UPDATE,
  variables: SPECS,
  validations: [
    {
      expression: `!${isNew("endpoint.gateway.gatewayRef")} || ${may("create", "aigateway.envoyproxy.io", "aigatewayroutes")}`,
      message: "a reference to a Gateway needs the right to create AIGatewayRoutes in the namespace",
      messageExpression:
        "'spec.endpoint.gateway.gatewayRef: Metalbridge attaches a route to this Gateway for the user who names it, which requires the right to create ' + " +
        "'AIGatewayRoutes in namespace ' + request.namespace + ': remove it, or ask for that right'",
    },
  ],
};

/** A new source would receive the credentials of the old one, so every change of a source with a Secret requires the right to get it. */
const modelSecrets: Policy = {
  name: "metalbridge-model-secrets",
  on: [GROUP, VERSION, "models"],
  operations: CREATE_OR_UPDATE,
  variables: [
    ...SPECS,
    {
      name: "refused",
      expression: pathsWhere(
        ["sourceSecretRef.name"],
        (path) =>
          `${celField("variables.spec", path)} != null && (${isNew(path)} || ${isNew("source")}) && !${mayGet(celField("variables.spec", path))}`,
      ),
    },
  ],
  validations: [secretRule()],
};

function secretRule(): Policy["validations"][number] {
  return {
    expression: "size(variables.refused) == 0",
    message: "a reference to a Secret needs the right to get that Secret",
    messageExpression:
      "variables.refused.join(', ') + ': Metalbridge uses this Secret for the user who names it, which requires the right to get it in namespace ' + " +
      "request.namespace + ': name a Secret that you may read, or ask for the right to get this one'",
  };
}

const CANNOT_UPDATE = (resource: string) => ({
  name: "may-patch-but-not-update",
  expression: `!authorizer.group('${GROUP}').resource('${resource}').namespace(request.?namespace.orValue('')).name(request.name).check('update').allowed()`,
});

/** True if no other field of spec has changed. */
const onlyChanged = (fields: readonly string[]) => {
  const allowed = `[${fields.map((field) => `'${field}'`).join(", ")}]`;
  return (
    `variables.spec.all(field, field in ${allowed} || (field in variables.before && variables.spec[field] == variables.before[field])) && ` +
    `variables.before.all(field, field in ${allowed} || field in variables.spec)`
  );
};

const sameFinalizers = (own: string) => {
  const others = (object: string) =>
    `${object}.metadata.?finalizers.orValue([]).filter(one, one != '${own}')`;
  return `${others("object")} == ${others("oldObject")}`;
};

const serviceOperators: Policy = {
  name: "metalbridge-service-operators",
  on: [GROUP, VERSION, "inferenceservices"],
  operations: ["UPDATE"],
  of: CANNOT_UPDATE("inferenceservices"),
  variables: SPECS,
  validations: [
    {
      expression: onlyChanged(OPERATOR_FIELDS),
      message:
        "without the right to update InferenceServices you may change spec.replicas, suspend, idle, rollout, modelRevision and settings of the engine only; " +
        "to change the rest, ask for a role that allows update",
    },
    {
      expression: `${celUnchanged("labels", "ownerReferences")} && ${sameFinalizers(FINALIZER_SERVICE)}`,
      message:
        "without the right to update InferenceServices you may not change their labels, owner references and finalizers",
    },
  ],
};

const hostOperators: Policy = {
  name: "metalbridge-host-operators",
  on: [GROUP, VERSION, "hosts"],
  operations: ["UPDATE"],
  of: CANNOT_UPDATE("hosts"),
  variables: SPECS,
  validations: [
    {
      expression: onlyChanged(["unschedulable", "drain"]),
      message:
        "without the right to update Hosts you may cordon, drain and mark them as lost only; to change spec.addresses and the rest, ask for a role that allows update",
    },
    {
      // hosts/labels is no subresource, only a right, which the controller has for the labels that describe hardware.
      expression:
        `(${celUnchanged("labels")} || authorizer.group('${GROUP}').resource('hosts').subresource('labels').name(request.name).check('patch').allowed()) && ` +
        celUnchanged("ownerReferences", "finalizers"),
      message:
        "without the right to update Hosts you may not change their labels, owner references and finalizers",
    },
    {
      expression:
        "object.metadata.?annotations.orValue({}).all(name, " +
        `name == '${ANNOTATION_LOST}' || oldObject.metadata.?annotations[?name].orValue(null) == object.metadata.annotations[name])`,
      message: `without the right to update Hosts you may change the annotation ${ANNOTATION_LOST} only`,
    },
  ],
};

const CAPABILITIES = [
  ...["AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"],
  ...["NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"],
];

/** Fields that a service copies to its pods, with the values that the Pod Security Standard `baseline` forbids. */
const DANGEROUS: Readonly<Record<string, string>> = {
  "securityContext.privileged": `${celField("variables.spec", "securityContext.privileged")} == true`,
  "securityContext.capabilities": `variables.spec.?securityContext.?capabilities.?add.orValue([]).exists(one, !(one in [${CAPABILITIES.map((one) => `'${one}'`).join(", ")}]))`,
  "securityContext.procMount": "variables.spec.?securityContext.?procMount.orValue('Default') != 'Default'",
  ...Object.fromEntries(
    ["securityContext", "podSecurityContext"].flatMap((context) => [
      [
        `${context}.seccompProfile`,
        `${celField("variables.spec", `${context}.seccompProfile.type`)} == 'Unconfined'`,
      ],
      [
        `${context}.appArmorProfile`,
        `${celField("variables.spec", `${context}.appArmorProfile.type`)} == 'Unconfined'`,
      ],
      [`${context}.seLinuxOptions`, `${celField("variables.spec", `${context}.seLinuxOptions`)} != null`],
      [
        `${context}.windowsOptions`,
        `${celField("variables.spec", `${context}.windowsOptions.hostProcess`)} == true`,
      ],
    ]),
  ),
  "podSecurityContext.sysctls": "size(variables.spec.?podSecurityContext.?sysctls.orValue([])) > 0",
  extraVolumes: "variables.spec.?extraVolumes.orValue([]).exists(volume, has(volume.hostPath))",
  // The volume of pods.hostPaths: the whole folder, which a second mount could make writable.
  extraVolumeMounts:
    "variables.spec.?extraVolumeMounts.orValue([]).exists(mount, mount.?name.orValue('').matches('^node-[0-9]+$'))",
  priorityClassName: "variables.spec.?priorityClassName.orValue('').startsWith('system-')",
};

/** Not installed if the installation allows such pods. */
const dangerousPods: Policy = {
  name: "metalbridge-dangerous-pods",
  on: [GROUP, VERSION, "inferenceservices"],
  operations: CREATE_OR_UPDATE,
  variables: [
    ...SPECS,
    {
      name: "set",
      expression: pathsWhere(Object.keys(DANGEROUS), (path) => `${isNew(path)} && ${DANGEROUS[path]}`),
    },
  ],
  validations: [
    {
      expression: "size(variables.set) == 0",
      message: "such pods are root on their node",
      messageExpression:
        "variables.set.join(', ') + ': a pod with this setting can take over its node: remove it, or have an administrator allow it ' + " +
        "'for the whole cluster (chart value allowDangerousPods)'",
    },
  ],
};

/** All policies with their bindings. */
export function userPolicies(): readonly AccessObject[] {
  return [podSettings, serviceSecrets, serviceRoutes, modelSecrets, serviceOperators, hostOperators].flatMap(
    policyObjects,
  );
}

/** The policy that an installation can omit. */
export function dangerousPodsPolicy(): readonly AccessObject[] {
  return policyObjects(dangerousPods);
}
