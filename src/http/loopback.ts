/** Addresses that only this machine can reach. Pure. */

/** 127.0.0.0/8, ::1, and either of them as an IPv6 socket shows it. */
export function isLoopback(address: string): boolean {
  return address === "::1" || /^(::ffff:)?127(\.\d{1,3}){3}$/i.test(address);
}
