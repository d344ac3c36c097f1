/** Files and folders of buckets. */
import { InvalidSource, type SourceKind } from "./kind.ts";
import { lastName, relativePath } from "./path.ts";

export interface BucketSource<Kind extends string> {
  readonly kind: Kind;
  readonly bucket: string;
  readonly key: string;
}

const BUCKET = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

export const S3 = bucketKind("s3", [
  "AWS_ACCESS_KEY_ID",
  "AWS_SECRET_ACCESS_KEY",
  "AWS_SESSION_TOKEN",
  "AWS_REGION",
  "AWS_DEFAULT_REGION",
  "AWS_ENDPOINT_URL",
  "AWS_ENDPOINT_URL_S3",
  "AWS_S3_ADDRESSING_STYLE",
]);

export const OSS = bucketKind("oss", [
  "OSS_ACCESS_KEY_ID",
  "OSS_ACCESS_KEY_SECRET",
  "OSS_SESSION_TOKEN",
  "OSS_REGION",
  "OSS_ENDPOINT",
]);

export const GS = bucketKind("gs", [
  "GS_ACCESS_KEY_ID",
  "GS_SECRET_ACCESS_KEY",
  "GOOGLE_APPLICATION_CREDENTIALS_JSON",
  "gcloud-application-credentials.json",
  "STORAGE_EMULATOR_HOST",
]);

function bucketKind<const Kind extends string>(kind: Kind, credentialKeys: readonly string[]) {
  const form = `${kind}://bucket/path/model.gguf`;
  return {
    schemes: [kind],
    form: `${kind}://`,
    readBy: "hub",
    credentialKeys,
    parse: (rest): BucketSource<Kind> => {
      const [bucket = "", ...key] = rest.split("/");
      if (!BUCKET.test(bucket))
        throw new InvalidSource(`${JSON.stringify(bucket)} is not a bucket's name`, form);
      return { kind, bucket, key: relativePath(key.join("/"), form) };
    },
    fileName: ({ key }: BucketSource<Kind>) => lastName(key),
  } as const satisfies SourceKind<BucketSource<Kind>>;
}
