/** A real S3 server for the tests of sources: it checks signatures, clocks and regions. */
import { goProgram } from "./go-program.mjs";

export const { find: findS3Server, ensure: ensureS3Server } = goProgram({
  program: "versitygw",
  variable: "METALBRIDGE_S3_SERVER",
  module: "github.com/versity/versitygw/cmd/versitygw",
  version: "v1.8.0",
  flags: ["-trimpath", "-ldflags=-s -w"],
});
