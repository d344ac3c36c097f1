/** Google Cloud Storage with its XML API: HMAC keys, the key of a service account, or no credentials for public buckets. */
import { createSign } from "node:crypto";
import { z } from "zod";
import { MetalbridgeError } from "../../api/errors.ts";
import type { BucketSource } from "../../models/source/kinds/buckets.ts";
import { parseJson } from "../../util/parse-json.ts";
import { type RequestAuthorizer, requestText } from "../client.ts";
import { permanent, plainUrl } from "../failure.ts";
import type { Access, SourceReader } from "../remote-source.ts";
import {
  type BucketService,
  bucketAddress,
  bucketEndpointOf,
  bucketSettingsOf,
  keyPair,
  openBucket,
} from "./bucket.ts";
import { type Signing, signV4 } from "./s3.ts";

const accountSchema = z.looseObject({
  type: z.literal("service_account"),
  client_email: z.string().min(1),
  private_key: z.string().min(1),
  private_key_id: z.string().optional(),
  token_uri: z.url().default("https://oauth2.googleapis.com/token"),
});
const tokenSchema = z.looseObject({ access_token: z.string().min(1), expires_in: z.number().default(3600) });

const SCOPE = "https://www.googleapis.com/auth/devstorage.read_only";
const LIFE_SECONDS = 3600;
/** A token is renewed this long before it expires. */
const MARGIN_MS = 60_000;

/** Throws MetalbridgeError for invalid credentials. */
export function openGs(source: BucketSource<"gs">, access: Access): SourceReader {
  return openBucket(source, gsService(source.bucket, access));
}

function gsService(bucket: string, access: Access): BucketService {
  const get = bucketSettingsOf(access);
  const emulator = get("STORAGE_EMULATOR_HOST");
  const { url, rules } =
    emulator === undefined
      ? { url: new URL("https://storage.googleapis.com"), rules: access.rules }
      : bucketEndpointOf(emulator, access);
  const names = "GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY";
  const keys = keyPair(get("GS_ACCESS_KEY_ID"), get("GS_SECRET_ACCESS_KEY"), names);
  const json = get("GOOGLE_APPLICATION_CREDENTIALS_JSON", "gcloud-application-credentials.json");
  const account = json === undefined ? undefined : serviceAccount(json, access);
  const signing: Signing = { keys, region: "auto", clockOffsetMs: 0 };
  return {
    rules,
    isAnonymous: keys === undefined && account === undefined,
    base: () => bucketAddress(url, bucket, true),
    authorize: account?.authorize ?? signV4(signing),
    // A refused token is renewed once. If the new token is also refused, the credentials are wrong.
    learn: ({ status }) => status === 401 && account?.forget() === true,
    setClock: (nowMs) => {
      signing.clockOffsetMs = nowMs - Date.now();
    },
  };
}

interface ServiceAccount extends Required<Pick<RequestAuthorizer, "authorize">> {
  /** Discards the token. Returns false if a token was discarded before. */
  readonly forget: () => boolean;
}

function serviceAccount(json: string, { rules }: Access): ServiceAccount {
  const parsed = accountSchema.safeParse(parseJson(json));
  if (!parsed.success)
    throw new MetalbridgeError(
      "SourceSecretInvalid",
      "the credentials are not the JSON key of a Google service account",
    );
  const account = parsed.data;
  let token: { readonly text: string; readonly untilMs: number } | undefined;
  let isForgotten = false;
  const fetchToken = async (signal: AbortSignal): Promise<string> => {
    const nowMs = Date.now();
    const url = new URL(account.token_uri);
    const body = new URLSearchParams({
      grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
      assertion: signedClaims(account, Math.floor(nowMs / 1000)),
    }).toString();
    const headers = { "content-type": "application/x-www-form-urlencoded", accept: "application/json" };
    const request = { method: "POST", headers, body, signal } as const;
    const { text } = await requestText(
      url,
      request,
      { ...rules, maxRedirects: 0 },
      {
        maxBytes: 64 << 10,
        onStatus: ({ status }) => {
          if (status === 400 || status === 401)
            throw permanent(
              "SourceUnauthorized",
              `${plainUrl(url)} does not accept the service account's key`,
            );
        },
      },
    );
    const granted = tokenSchema.safeParse(parseJson(text));
    if (!granted.success) throw permanent("SourceRefused", `${plainUrl(url)} answered without a token`);
    const { access_token, expires_in } = granted.data;
    token = { text: access_token, untilMs: nowMs + expires_in * 1000 - MARGIN_MS };
    return access_token;
  };
  return {
    authorize: async ({ signal }) => {
      const isValid = token !== undefined && Date.now() < token.untilMs;
      return { authorization: `Bearer ${isValid ? token?.text : await fetchToken(signal)}` };
    },
    forget: () => {
      token = undefined;
      const isFirst = !isForgotten;
      isForgotten = true;
      return isFirst;
    },
  };
}

/** A JSON web token that Google exchanges for an access token (RFC 7523). */
function signedClaims(account: z.output<typeof accountSchema>, nowSeconds: number): string {
  const { client_email, private_key, private_key_id, token_uri } = account;
  const header = { alg: "RS256", typ: "JWT", kid: private_key_id };
  const times = { iat: nowSeconds, exp: nowSeconds + LIFE_SECONDS };
  const claims = { iss: client_email, scope: SCOPE, aud: token_uri, ...times };
  const text = [header, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
    .join(".");
  try {
    return `${text}.${createSign("RSA-SHA256").update(text).sign(private_key, "base64url")}`;
  } catch (error) {
    throw permanent("SourceSecretInvalid", "the private key of the service account cannot be read", error);
  }
}
