/** What a command line of llama-server is made from. */
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
  /** Names by which clients may call the model. */
  readonly aliases: readonly string[];
  readonly apiKeyFile?: string;
  /** How the model is split over several GPUs; the parts are shares, in the order of the devices. */
  readonly split?: { readonly mode: string; readonly parts?: readonly number[] };
  /** From the model's header, where known. */
  readonly gguf?: {
    readonly contextLength?: number | undefined;
    readonly keyLength?: number | undefined;
    readonly valueLength?: number | undefined;
  };
}
