/** S3, or a server with its API. Requests have signature version 4, or no signature for public buckets. */
import { AwsV4Signer } from "aws4fetch";
import type { BucketSource } from "../../models/source/kinds/buckets.ts";
import type { RequestAuthorizer } from "../client.ts";
import type { Access, SourceReader } from "../remote-source.ts";
import {
  type BucketService,
  bucketAddress,
  bucketEndpointOf,
  bucketSettingsOf,
  keyPair,
  openBucket,
} from "./bucket.ts";

const AMAZON_HOST = /(^|\.)s3\.[a-z0-9-]{2,40}\.amazonaws\.com(\.cn)?$/;
const REGION = /^[a-z0-9-]{2,40}$/;

/** Throws MetalbridgeError for invalid credentials. */
export function openS3(source: BucketSource<"s3">, access: Access): SourceReader {
  return openBucket(source, s3Service(source.bucket, access));
}

function s3Service(bucket: string, access: Access): BucketService {
  const get = bucketSettingsOf(access);
  const named = get("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
  const endpoint = named === undefined ? undefined : bucketEndpointOf(named, access);
  const names = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
  const keys = keyPair(get("AWS_ACCESS_KEY_ID"), get("AWS_SECRET_ACCESS_KEY"), names);
  const signing: Signing = {
    keys,
    sessionToken: get("AWS_SESSION_TOKEN"),
    clockOffsetMs: 0,
    region: get("AWS_REGION", "AWS_DEFAULT_REGION") ?? "us-east-1",
  };
  const style = get("AWS_S3_ADDRESSING_STYLE");
  // The certificate of *.s3.amazonaws.com does not cover bucket names with a dot.
  const isPathStyle = style === undefined ? named !== undefined || bucket.includes(".") : style === "path";
  const host = () => {
    const suffix = signing.region.startsWith("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
    return endpoint?.url ?? new URL(`https://s3.${signing.region}.${suffix}`);
  };
  return {
    rules: endpoint?.rules ?? access.rules,
    isAnonymous: keys === undefined,
    base: () => bucketAddress(host(), bucket, isPathStyle),
    holds: endpoint === undefined ? (address) => AMAZON_HOST.test(new URL(address).hostname) : undefined,
    authorize: signV4(signing),
    learn: ({ headers }, error) => {
      const found = headers["x-amz-bucket-region"] ?? error?.region;
      if (typeof found !== "string" || found === signing.region || !REGION.test(found)) return false;
      signing.region = found;
      return true;
    },
    setClock: (nowMs) => {
      signing.clockOffsetMs = nowMs - Date.now();
    },
    checksumHeaders: { "x-amz-checksum-mode": "ENABLED" },
  };
}

export interface Signing {
  readonly keys: { readonly id: string; readonly secret: string } | undefined;
  readonly sessionToken?: string | undefined;
  region: string;
  clockOffsetMs: number;
}

/** Signs the address and the headers of the service, with an empty body. Without keys, it returns no headers. */
export function signV4(signing: Signing): NonNullable<RequestAuthorizer["authorize"]> {
  return async ({ url, method, headers }) => {
    const { keys, sessionToken, region } = signing;
    if (keys === undefined) return {};
    const now = new Date(Date.now() + signing.clockOffsetMs).toISOString();
    const own = Object.entries(headers).filter(([name]) => name.toLowerCase().startsWith("x-amz-"));
    const signer = new AwsV4Signer({
      url: url.href,
      method,
      headers: Object.fromEntries(own),
      service: "s3",
      region,
      accessKeyId: keys.id,
      secretAccessKey: keys.secret,
      sessionToken,
      datetime: now.replace(/[:-]|\.\d{3}/g, ""),
    });
    return Object.fromEntries((await signer.sign()).headers);
  };
}
