/** Address and port of a host's remote access. An address in its status counts only if its spec allows it. */
import { isAddressWithin } from "../util/ip-address.ts";
import type { Host } from "./host.ts";

export interface RemotePlace {
  readonly address: string;
  readonly port: number;
}

/** Undefined if remote access is off, or no address is within the host's spec. */
export function remotePlaceOf({ spec, status }: Pick<Host, "spec" | "status">): RemotePlace | undefined {
  const address = status?.addresses?.find((one) => isAddressWithin(one, spec.addresses ?? []));
  const { port } = status?.remote ?? {};
  return address === undefined || port === undefined ? undefined : { address, port };
}
