/** All services that the gateway serves, by name, from the watched objects. */
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import {
  createPublicNames,
  type MayUse,
  type NameShare,
  serviceNamesOf,
} from "../../src/gateway/public-names.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import { type ServedModel, servedModel, serviceOfSlice } from "./served-model.ts";

export class Models {
  readonly #services = new Map<string, InferenceService>();
  /** Slices by name, of each service. */
  readonly #slices = new Map<string, Map<string, EndpointSlice>>();
  readonly #models = new Map<string, ServedModel>();
  readonly #names = createPublicNames();
  readonly #onChange: (key: string) => void;

  /** `onChange` is called after each change or removal of a model. */
  constructor(onChange: (key: string) => void) {
    this.#onChange = onChange;
  }

  setService(key: string, service: InferenceService | undefined): void {
    if (service === undefined || service.metadata.deletionTimestamp !== undefined) {
      this.#services.delete(key);
      this.#names.remove(key);
    } else {
      this.#services.set(key, service);
      this.#names.set(serviceNamesOf(service));
    }
    this.#update(key);
  }

  setSlice(key: string, slice: EndpointSlice | undefined, before: EndpointSlice | undefined): void {
    const service = serviceOfSlice(slice ?? before ?? { metadata: { name: key }, addressType: "IPv4" });
    if (service === undefined) return;
    const slices = this.#slices.get(service) ?? new Map<string, EndpointSlice>();
    if (slice === undefined) slices.delete(key);
    else slices.set(key, slice);
    if (slices.size === 0) this.#slices.delete(service);
    else this.#slices.set(service, slices);
    this.#update(service);
  }

  get(key: string): ServedModel | undefined {
    return this.#models.get(key);
  }

  list(): Iterable<ServedModel> {
    return this.#models.values();
  }

  sharesOf(name: string, mayUse: MayUse): readonly NameShare[] {
    return this.#names.sharesOf(name, mayUse);
  }

  namesOf(key: string, mayUse?: MayUse): readonly string[] {
    return this.#names.namesOf(key, mayUse);
  }

  #update(key: string): void {
    const service = this.#services.get(key);
    if (service === undefined) {
      if (this.#models.delete(key)) this.#onChange(key);
      return;
    }
    const model = servedModel(service, [...(this.#slices.get(key)?.values() ?? [])]);
    this.#models.set(key, model);
    this.#onChange(key);
  }
}
