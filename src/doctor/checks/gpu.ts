/** GPUs of Linux hosts. */
import { type Check, defineCheck } from "./check.ts";

const linux = ["linux"] as const;

export const gpuChecks: readonly Check[] = [
  defineCheck({
    code: "GpuDriverMissing",
    title: "GPU driver",
    severity: "warning",
    platforms: linux,
    reason: "engines run on the CPU, at a tenth of the speed or less",
    needs: ["gpus"],
    judge: ({ gpus }) => {
      if (gpus.length === 0) return "notApplicable";
      return gpus
        .filter(({ isDriverLoaded }) => !isDriverLoaded)
        .map(({ name }) => ({ finding: `no driver is loaded for ${name}` }));
    },
  }),
  defineCheck({
    code: "GpuNotPermitted",
    title: "access to the GPU",
    severity: "warning",
    platforms: linux,
    reason: "engines run as the agent's user, and silently fall back to the CPU",
    needs: ["gpus"],
    judge: ({ gpus }) => {
      const loaded = gpus.filter(({ isDriverLoaded }) => isDriverLoaded);
      if (loaded.length === 0) return "notApplicable";
      return loaded
        .filter(({ mayUse }) => !mayUse)
        .map(({ name }) => ({ finding: `this user may not open the device of ${name}` }));
    },
  }),
];
