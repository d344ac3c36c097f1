/** Devices of a node as a driver of dynamic resource allocation publishes them. No driver runs: kwok's pods need none. */

const DRIVER = "gpu.example.com";
const API = { apiVersion: "resource.k8s.io/v1" };

/** DeviceClass `SIZE.example.com`, of the devices with this size. */
export function deviceClassOfSize(size: string): object {
  const expression = `device.driver == "${DRIVER}" && device.attributes["${DRIVER}"].size == "${size}"`;
  const spec = { selectors: [{ cel: { expression } }] };
  return { ...API, kind: "DeviceClass", metadata: { name: `${size}.example.com` }, spec };
}

/** The devices of a node: their sizes by name. */
export function devicesOf(nodeName: string, devices: Readonly<Record<string, string>>): object {
  return {
    ...API,
    kind: "ResourceSlice",
    metadata: { name: `${nodeName}-gpus` },
    spec: {
      driver: DRIVER,
      nodeName,
      pool: { name: nodeName, generation: 1, resourceSliceCount: 1 },
      devices: Object.entries(devices).map(([name, size]) => ({
        name,
        attributes: { size: { string: size } },
      })),
    },
  };
}
