/** The form of an address in a URL: IPv6 addresses are in brackets. */
export function hostInUrl(address: string): string {
  return address.includes(":") ? `[${address}]` : address;
}
