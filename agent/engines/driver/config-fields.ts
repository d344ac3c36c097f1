/** Configuration fields for paths and addresses. */
import * as z from "zod";

export const path = z
  .string()
  .min(1, "must not be empty")
  .refine((text) => !text.includes("\0"), "must not hold a zero byte");

export const absolutePath = path.refine((text) => text.startsWith("/"), "must be an absolute path");

export const loopbackAddress = (example: string) =>
  z
    .string()
    .regex(
      /^(127(\.\d{1,3}){3}|localhost|\[::1\]):\d{1,5}$/,
      `must be an address of loopback, such as ${example}`,
    );

export const endpoint = z.url({ protocol: /^https?$/, error: "must be an http or https address" });
