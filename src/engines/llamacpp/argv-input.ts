/** Input for the command line of llama-server. */
import type { EngineSettings } from "../../api/engine-settings.ts";

export interface LoraAdapter {
  readonly path: string;
  readonly scale: number;
}

export interface LlamaServerInput {
  readonly settings: EngineSettings;
  readonly modelPath: string;
  readonly mmprojPath?: string;
  readonly draftPath?: string;
  readonly loraAdapters?: readonly LoraAdapter[];
  readonly chatTemplatePath?: string;
  /** Folder for saved slots. */
  readonly slotSavePath?: string;
  /** Addresses to listen on, loopback first. */
  readonly hosts: readonly string[];
  readonly port: number;
  /** Model names that clients may use. */
  readonly aliases: readonly string[];
  readonly apiKeyFile?: string;
  /** Distribution of the model over several GPUs; the parts are fractions in the order of the devices. */
  readonly split?: { readonly mode: string; readonly parts?: readonly number[] };
  /** Metadata from the header of the model, if known. */
  readonly gguf?: {
    readonly contextLength?: number | undefined;
    readonly keyLength?: number | undefined;
    readonly valueLength?: number | undefined;
  };
}
