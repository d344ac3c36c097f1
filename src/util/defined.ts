/** The object without its undefined fields, for spreading over other values and for comparing with what the API server keeps. */
export function defined<T extends object>(object: { readonly [K in keyof T]: T[K] | undefined }): T {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as T;
}
