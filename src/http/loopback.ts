/** Addresses that only this machine can reach, and what programs of this machine send there. Pure. */

/** 127.0.0.0/8, ::1, and either of them as an IPv6 socket shows it. */
export function isLoopback(address: string): boolean {
  return address === "::1" || /^(::ffff:)?127(\.\d{1,3}){3}$/i.test(address);
}

export interface RequestNames {
  readonly host?: string | undefined;
  readonly origin?: string | undefined;
}

/** Of requests to loopback: a web page whose name leads there is a page all the same. */
export function isFromProgram({ host = "", origin }: RequestNames): boolean {
  return isNameOfLoopback(`http://${host}`) && (origin === undefined || isNameOfLoopback(origin));
}

function isNameOfLoopback(url: string): boolean {
  return URL.canParse(url) && /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(new URL(url).hostname);
}
