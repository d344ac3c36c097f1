/** The quantization of safetensors, as `quantization_config` in a model's `config.json` states it. Pure. */
import { z } from "zod";
import { parseJson } from "../../util/parse-json.ts";

const bits = z.int().min(1).max(64).optional().catch(undefined);
const word = z
  .string()
  .max(64)
  .regex(/^\w[\w.-]*$/)
  .optional()
  .catch(undefined);
const flag = z.boolean().optional().catch(undefined);
const group = z
  .object({ weights: z.object({ num_bits: bits, type: word }) })
  .nullish()
  .catch(undefined);

const quantizationSchema = z
  .object({
    quant_method: word,
    quant_algo: word,
    bits,
    load_in_4bit: flag,
    load_in_8bit: flag,
    config_groups: z.record(z.string(), group).optional().catch(undefined),
  })
  .optional()
  .catch(undefined);

const inner = z.object({ quantization_config: quantizationSchema });
/** In a vision model, the settings of the language model may be in `text_config`. */
const configSchema = inner.extend({ text_config: inner.optional().catch(undefined) });

/** For example awq-4bit, gptq-8bit, fp8 or int8; undefined if the weights are not quantized, or the text is not readable. */
export function safetensorsQuantization(text: string): string | undefined {
  const parsed = configSchema.safeParse(parseJson(text));
  if (!parsed.success) return undefined;
  const { quantization_config: outer, text_config: language } = parsed.data;
  const config = outer ?? language?.quantization_config;
  if (config === undefined) return undefined;
  const { quant_method: method, quant_algo: algorithm, bits: size } = config;
  if (config.load_in_4bit === true) return "bnb-4bit";
  if (config.load_in_8bit === true) return "bnb-8bit";
  const named = largestGroup(Object.values(config.config_groups ?? {})) ?? algorithm;
  // MLX states bits without a method.
  if (named !== undefined || method === undefined) return named?.toLowerCase();
  return (
    size === undefined || method.endsWith(String(size)) ? method : `${method}-${size}bit`
  ).toLowerCase();
}

/** The group of compressed-tensors with the most bits. */
function largestGroup(groups: readonly z.output<typeof group>[]): string | undefined {
  const known = groups.flatMap((one) => {
    const { num_bits: size, type } = one?.weights ?? {};
    return size === undefined ? [] : [{ size, name: `${type === "float" ? "fp" : "int"}${size}` }];
  });
  return known.sort((a, b) => b.size - a.size)[0]?.name;
}
