import { type DesiredModel, ensembleModels, type FindModel } from '@nereid/config';

/**
 * The models that an unload of one takes along with its `dependents`, that one first (model_repository_manager.cc,
 * RemoveNodes): of each ensemble that goes its models, those that nobody has named and no other ensemble wants.
 */
export function unloadedWithDependents(
  model: string,
  desired: ReadonlyMap<string, DesiredModel>,
  find: FindModel,
): readonly string[] {
  const goes = new Set([model]);
  const parts = (name: string) => {
    const record = find(name);
    return record === undefined ? [] : ensembleModels(record.config);
  };
  const isWanted = (name: string) =>
    [...desired].some(([other, { unloaded }]) => unloaded !== true && !goes.has(other) && parts(other).includes(name));
  // A set is walked on through what is added meanwhile.
  for (const name of goes) {
    for (const part of parts(name)) if (desired.get(part)?.implicit === true && !isWanted(part)) goes.add(part);
  }
  return [...goes];
}
