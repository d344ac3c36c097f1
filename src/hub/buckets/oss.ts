/** Alibaba Cloud OSS. Requests are signed with its signature version 4, which no small library supports. */
import { createHmac } from "node:crypto";
import { isIP } from "node:net";
import type { BucketSource } from "../../models/source/kinds/buckets.ts";
import { sha256Hex } from "../../util/hash.ts";
import type { Access, SourceReader } from "../remote-source.ts";
import {
  type BucketService,
  bucketAddress,
  bucketEndpointOf,
  bucketSettingsOf,
  keyPair,
  openBucket,
} from "./bucket.ts";

const PUBLIC_HOST = /^oss-([a-z0-9-]{2,40}?)(-internal)?\.aliyuncs\.com$/;
const PUBLIC_BUCKET = /\.oss-[a-z0-9-]{2,49}\.aliyuncs\.com$/;

/** Throws MetalbridgeError for invalid credentials. */
export function openOss(source: BucketSource<"oss">, access: Access): SourceReader {
  return openBucket(source, ossService(source.bucket, access));
}

function ossService(bucket: string, access: Access): BucketService {
  const get = bucketSettingsOf(access);
  const named = get("OSS_ENDPOINT");
  const endpoint = named === undefined ? undefined : bucketEndpointOf(named, access);
  const names = "OSS_ACCESS_KEY_ID and OSS_ACCESS_KEY_SECRET";
  const keys = keyPair(get("OSS_ACCESS_KEY_ID"), get("OSS_ACCESS_KEY_SECRET"), names);
  const sessionToken = get("OSS_SESSION_TOKEN");
  const endpointRegion = PUBLIC_HOST.exec(endpoint?.url.hostname ?? "")?.[1];
  let region = get("OSS_REGION")?.replace(/^oss-/, "") ?? endpointRegion ?? "cn-hangzhou";
  let host = endpoint?.url ?? new URL(`https://oss-${region}.aliyuncs.com`);
  let clockOffsetMs = 0;
  const isPathStyle = isIP(host.hostname.replace(/^\[|\]$/g, "")) !== 0;
  const base = () => bucketAddress(host, bucket, isPathStyle);
  return {
    rules: endpoint?.rules ?? access.rules,
    isAnonymous: keys === undefined,
    base,
    // The region may change when the server reports it. Bucket names are unique within the cloud.
    holds: PUBLIC_HOST.test(host.hostname)
      ? (address) => PUBLIC_BUCKET.test(new URL(address).hostname)
      : undefined,
    authorize: async ({ url, method, headers }) => {
      if (keys === undefined) return {};
      const key = decodeURIComponent(url.href.split("?")[0]?.slice(base().length) ?? "");
      const token: Record<string, string> =
        sessionToken === undefined ? {} : { "x-oss-security-token": sessionToken };
      const own = { ...headers, ...token, "x-oss-content-sha256": "UNSIGNED-PAYLOAD" };
      const request = { method, bucket, key, query: url.searchParams, headers: own };
      const at = new Date(Date.now() + clockOffsetMs);
      return { ...token, ...signOss(request, { ...keys, region }, at) };
    },
    learn: (_, error) => {
      const found = PUBLIC_HOST.exec(error?.endpoint ?? "")?.[1];
      if (error?.code !== "AccessDenied" || found === undefined || found === region) return false;
      region = found;
      host = new URL(`https://oss-${found}.aliyuncs.com`);
      return true;
    },
    setClock: (nowMs) => {
      clockOffsetMs = nowMs - Date.now();
    },
  };
}

interface OssRequest {
  readonly method: string;
  readonly bucket: string;
  readonly key: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string>>;
}

/** The headers that sign a request (OSS4-HMAC-SHA256). */
export function signOss(
  { method, bucket, key, query, headers }: OssRequest,
  keys: { readonly id: string; readonly secret: string; readonly region: string },
  at: Date,
): Record<string, string> {
  const datetime = at.toISOString().replace(/[:-]|\.\d{3}/g, "");
  const date = datetime.slice(0, 8);
  const scope = `${date}/${keys.region}/oss/aliyun_v4_request`;
  const added = { "x-oss-date": datetime, "x-oss-content-sha256": "UNSIGNED-PAYLOAD" };
  const signed = Object.entries({ ...headers, ...added })
    .map(([name, value]) => [name.toLowerCase(), value.trim()] as const)
    .filter(([name]) => name.startsWith("x-oss-") || name === "content-type" || name === "content-md5")
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const parameters = [...query]
    .map(([name, value]) => [percentEncoded(name), value === "" ? "" : `=${percentEncoded(value)}`] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const canonical = [
    method,
    `/${bucket}/${key.split("/").map(percentEncoded).join("/")}`,
    parameters.map((pair) => pair.join("")).join("&"),
    signed.map(([name, value]) => `${name}:${value}\n`).join(""),
    // No additional headers.
    "",
    added["x-oss-content-sha256"],
  ].join("\n");
  const hashed = sha256Hex(canonical);
  const signingKey = [date, keys.region, "oss", "aliyun_v4_request"].reduce<Buffer | string>(
    (secret, part) => createHmac("sha256", secret).update(part).digest(),
    `aliyun_v4${keys.secret}`,
  );
  const signature = createHmac("sha256", signingKey)
    .update(["OSS4-HMAC-SHA256", datetime, scope, hashed].join("\n"))
    .digest("hex");
  const authorization = `OSS4-HMAC-SHA256 Credential=${keys.id}/${scope},Signature=${signature}`;
  return { ...added, authorization };
}

/** Percent-encoding of RFC 3986. */
function percentEncoded(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
