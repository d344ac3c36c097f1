/** Detects loopback addresses, and requests from programs of this machine. Pure. */

/** True for 127.0.0.0/8 and ::1, also in the form that an IPv6 socket reports. */
export function isLoopback(address: string): boolean {
  return address === "::1" || /^(::ffff:)?127(\.\d{1,3}){3}$/i.test(address);
}

export interface RequestNames {
  readonly host?: string | undefined;
  readonly origin?: string | undefined;
}

/** False for requests of web pages to loopback, including pages whose name resolves to loopback. */
export function isFromProgram({ host = "", origin }: RequestNames): boolean {
  return isNameOfLoopback(`http://${host}`) && (origin === undefined || isNameOfLoopback(origin));
}

function isNameOfLoopback(url: string): boolean {
  return URL.canParse(url) && /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(new URL(url).hostname);
}
