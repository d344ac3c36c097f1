/** Services with spec.idle on a real agent with real engines: the controller's clock is set forward instead of waiting. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { startAgent, type TestAgent, testAddress } from "../../agent/fixtures/agent.ts";
import { demand } from "../bed/demand.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { enginePorts } from "../bed/ports.ts";
import { type Bench, startBench } from "../controller/bench.ts";
import { createSteppedClock } from "../controller/stepped-clock.ts";
import { findLlamaServer } from "../fixtures/llama-server.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
