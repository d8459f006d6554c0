import type { ModelFound, ModelLookups } from '../model-lookup.ts';

/**
 * Names the files that a model's answers depend on, as far as is known here: the hash of its own, for an ensemble with
 * those of all that it is made of and which versions of them are chosen now.
 */
export function modelFiles(
  { record, signature }: ModelFound,
  models: Pick<ModelLookups, 'find'>,
  /** Of the same walk: each is told once, so that it ends soon whatever the records say. */
  told: Set<string> = new Set(),
): string {
  const { ensemble } = signature;
  if (ensemble === undefined) return record.contentHash;
  const parts = ensemble.steps.map(({ model, version }) => {
    const found = models.find(model, version);
    if (!found.ok) return [model];
    const name = `${found.version} ${model}`;
    if (told.has(name)) return [model, found.version];
    told.add(name);
    return [model, found.version, modelFiles(found, models, told)];
  });
  return JSON.stringify([record.contentHash, parts]);
}
