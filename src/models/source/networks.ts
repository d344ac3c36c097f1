/** Networks that sources are kept out of, by the client of sources and by the NetworkPolicy of download Jobs. */

/** Reserved for benchmarks. Proxies with fake IP addresses resolve every name to an address of it. */
export const FAKE_IP_NETWORK = "198.18.0.0/15";

/** Allowed where the operator says so. */
export const PRIVATE_NETWORKS = [
  "10.0.0.0/8",
  "100.64.0.0/10",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.168.0.0/16",
  FAKE_IP_NETWORK,
  "fc00::/7",
  "fec0::/10",
] as const;

/** Unspecified, link-local, multicast and metadata addresses, and tunnels that may lead to any of them. */
export const FORBIDDEN_NETWORKS = [
  "0.0.0.0/8",
  "100.100.100.200/32",
  "168.63.129.16/32",
  "169.254.0.0/16",
  "192.0.0.192/32",
  "224.0.0.0/4",
  "240.0.0.0/4",
  "::/128",
  "64:ff9b:1::/48",
  "2001::/32",
  "fd00:ec2::254/128",
  "fd20:ce::254/128",
  "fe80::/10",
  "ff00::/8",
] as const;
