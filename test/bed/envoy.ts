/** The real Envoy of the gateway, from the places where setup and `metalbridge gateway` look. */
import { readPartsConfig } from "../../local/control-plane/config.ts";
import { findEnvoy } from "../../local/control-plane/engine-programs.ts";

/** Undefined where none is installed: its tests are skipped then (describe-unless.ts). */
export const envoyPath: string | undefined = findEnvoy(readPartsConfig());

/** Undefined where Envoy is installed, else the reason for skipping a test. */
export const whyNoEnvoy: string | undefined =
  envoyPath === undefined ? "needs Envoy: npm run setup" : undefined;
